// The part of a chat request that the model's template sees.
#pragma once

#include <nlohmann/json.hpp>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "server/session/request_draft.h"
#include "server/session/request_limits.h"

namespace incipit {

// What a chat template is rendered with: an object of messages, tools and arguments.
struct Conversation {
  Conversation() = default;
  Conversation(Conversation&&) = default;
  Conversation& operator=(Conversation&&) = default;
  ~Conversation();

  nlohmann::ordered_json variables;  // nested as deep as BoundedJsonReader allows, and a few levels
};

// An error if the work is not wanted any more: the client is gone or the deadline has passed.
using CheckWanted = absl::FunctionRef<absl::Status()>;

// The variables of the chat template, in the shape that templates expect: messages and tools as in
// Hugging Face's conventions, add_generation_prompt, and the request's own arguments. The template
// knows the model's special tokens itself. Takes time linear in the bytes of `draft`; asks
// `check_wanted` between its JSON texts.
absl::StatusOr<Conversation> CheckConversation(ConversationDraft draft, const RequestLimits& limits,
                                               CheckWanted check_wanted);

}  // namespace incipit
