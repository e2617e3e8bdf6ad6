// The part of a ChatRequest that its template sees.
#pragma once

#include "absl/status/statusor.h"
#include "server/session/checked_request.h"

namespace incipit {

// The variables of the chat template, in the shape that templates expect: messages and tools as in
// Hugging Face's conventions, add_generation_prompt, and the request's own arguments. The template
// knows the model's special tokens itself.
absl::StatusOr<Conversation> CheckConversation(const v1::ChatRequest& message,
                                               const RequestLimits& limits);

}  // namespace incipit
