// Converts the messages and tools of a chat request of OpenAI's API to a conversation draft.
#pragma once

#include "absl/status/statusor.h"
#include "server/http/openai_fields.h"
#include "server/session/request_draft.h"
#include "server/session/request_limits.h"

namespace incipit {

// Reads messages, tools, chat_template_kwargs, add_generation_prompt and continue_final_message.
// Text parts of a message are joined with line ends. Returns INVALID_FIELD for other parts.
absl::StatusOr<ConversationDraft> ReadConversation(const OpenAiFields& fields,
                                                   const RequestLimits& limits);

}  // namespace incipit
