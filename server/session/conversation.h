// Checks the messages and tools of a chat request, and converts them to the variables of a chat
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

// The variables of a chat template: the messages, tools and template arguments of one request.
struct Conversation {
  Conversation() = default;
  Conversation(Conversation&&) = default;
  Conversation& operator=(Conversation&&) = default;
  ~Conversation();

  // The variables of the chat template, as members of a JSON object.
  nlohmann::ordered_json variables;
  // Content of the last message. Absent unless the model must continue the last message.
  std::optional<std::string> final_message;
  // Parameters that the tools declare as strings. Null: tool calls in the output stay text.
  std::shared_ptr<const StringParameters> tools;
};

// Returns an error if the client has cancelled or disconnected, or if the deadline of the request
// has passed. Otherwise returns OK.
using CheckWanted = absl::FunctionRef<absl::Status()>;

// Checks `draft` and returns the variables of the chat template, without the special tokens of the
// model. Calls `check_wanted` before each JSON text of `draft`, and stops if `check_wanted` returns
// an error.
absl::StatusOr<Conversation> CheckConversation(ConversationDraft draft, const RequestLimits& limits,
                                               CheckWanted check_wanted);

}  // namespace incipit
