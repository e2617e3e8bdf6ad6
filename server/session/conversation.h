// Converts the messages, tools and template arguments of a chat request to the variables of a chat
// template.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "server/session/request_draft.h"
#include "server/session/request_limits.h"
#include "text/chat/string_parameters.h"

namespace incipit {

// The input of a chat template: variables with the messages, the tools and the template arguments
// of a request.
struct Conversation {
  Conversation() = default;
  Conversation(Conversation&&) = default;
  Conversation& operator=(Conversation&&) = default;
  ~Conversation();

  // The variables of the chat template, as members of a JSON object.
  nlohmann::ordered_json variables;
  // Content of the last message, if the model must continue this message.
  std::optional<std::string> final_message;
  // Parameters of the tools, for tool calls in the output. Null if the request has no tools or does
  // not want tool calls.
  std::shared_ptr<const StringParameters> tools;
};

// A callback that returns an error if the request is no longer needed: the client has cancelled or
// disconnected, or the deadline has passed. Otherwise, the callback returns OK.
using CheckWanted = absl::FunctionRef<absl::Status()>;

// Checks `draft` and returns the variables of the chat template, except the special tokens of the
// model. Calls `check_wanted` before each JSON text, and stops if `check_wanted` returns an error.
absl::StatusOr<Conversation> CheckConversation(ConversationDraft draft, const RequestLimits& limits,
                                               CheckWanted check_wanted);

}  // namespace incipit
