// Reads the messages and tools of a chat request in the form of OpenAI's API.
#pragma once

#include "absl/status/statusor.h"
#include "server/http/openai_fields.h"
#include "server/session/request/request_draft.h"
#include "server/session/request/request_limits.h"

namespace incipit {

// Reads the fields of a chat request that determine the prompt, such as messages and tools. Joins
// the text parts of a message with line ends. Returns INVALID_FIELD for a message part that is not
// text.
absl::StatusOr<ConversationDraft> ReadConversation(const OpenAiFields& fields,
                                                   const RequestLimits& limits);

}  // namespace incipit
