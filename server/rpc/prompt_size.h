// Reads the size of a prompt from a serialized message without parsing the whole message.
#pragma once

#include <cstdint>

namespace grpc {
class ByteBuffer;
}

namespace incipit {

// The size of a prompt. For a text, `num_ids_min` is 0. For token ids, `text_bytes` is 0.
struct PromptSize {
  int64_t text_bytes = 0;   // size of the prompt text in bytes
  int64_t num_ids_min = 0;  // minimum number of token ids in the prompt
};

// Numbers of the fields that contain the prompt of a message.
struct PromptFields {
  int text = 0;       // field of the message: the prompt as text
  int token_ids = 0;  // field of the message: a message with the prompt as token ids
  int ids = 0;        // field of the message in the field `token_ids`: the token ids
};

// Returns the size of the prompt in a serialized message with the prompt fields `fields`. Reads
// only the tags and lengths of the fields. Returns zeros if the message has more than 64 fields or
// is invalid.
PromptSize PromptSizeOf(const grpc::ByteBuffer& bytes, const PromptFields& fields);

}  // namespace incipit
