// Converts the messages, tools and template arguments of a chat request to the variables of a chat
// template.
#pragma once

#include <nlohmann/json.hpp>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "server/session/request_draft.h"
#include "server/session/request_limits.h"

namespace incipit {

// The input of a chat template: `variables` is an object of messages, tools and arguments.
struct Conversation {
  Conversation() = default;
  Conversation(Conversation&&) = default;
  Conversation& operator=(Conversation&&) = default;
  ~Conversation();

  // The variables of the template. Values are nested a few levels deeper than kDepthMax of
  // BoundedJsonReader.
  nlohmann::ordered_json variables;
};

// A callback that returns an error if the client has cancelled or disconnected, or if the deadline
// has passed; otherwise OK.
using CheckWanted = absl::FunctionRef<absl::Status()>;

// Checks `draft` and returns the variables of the chat template. The variables are messages and
// tools in the format of Hugging Face, add_generation_prompt, and the template arguments of the
// request. The special tokens of the model are not among the variables, because ChatTemplate
// provides the special tokens. CheckConversation takes time linear in the bytes of `draft`, and
// calls `check_wanted` between the JSON texts of `draft`.
absl::StatusOr<Conversation> CheckConversation(ConversationDraft draft, const RequestLimits& limits,
                                               CheckWanted check_wanted);

}  // namespace incipit
