// The part of a ChatRequest that its template sees.
#pragma once

#include "absl/status/statusor.h"
#include "server/request.h"

namespace incipit {

// The variables of the chat template, in the shape that templates expect: messages and tools as in
// Hugging Face's conventions, add_generation_prompt, bos_token and eos_token where the model has
// them, and the request's own arguments.
absl::StatusOr<Conversation> CheckConversation(const v1::ChatRequest& message,
                                               const ServedModel& model,
                                               const RequestLimits& limits);

}  // namespace incipit
