// Checks the messages and tools of a chat request, and converts them to the variables of a chat
// template.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "server/session/request/request_draft.h"
#include "server/session/request/request_limits.h"
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
  // Content of the last message if the model must continue the last message; otherwise absent.
  std::optional<std::string> final_message;
  // The parameters of the tools whose declared type is string. Tool calls in the output are parsed
  // with this list. If null, tool calls stay ordinary text.
  std::shared_ptr<const StringParameters> tools;
};

// A callback that returns an error if the client has cancelled or disconnected, or if the deadline
// of the request has passed. Otherwise the callback returns OK.
using CheckWanted = absl::FunctionRef<absl::Status()>;

// Checks `draft` and returns the variables of the chat template. The variables do not include the
// special tokens of the model (such as bos_token). Calls `check_wanted` repeatedly, and stops if
// `check_wanted` returns an error.
absl::StatusOr<Conversation> CheckConversation(ConversationDraft draft, const RequestLimits& limits,
                                               CheckWanted check_wanted);

}  // namespace incipit
