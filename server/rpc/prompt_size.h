// Reads the size of the prompt from a serialized protobuf message without parsing the whole
// message.
#pragma once

#include <cstdint>

namespace grpc {
class ByteBuffer;
}

namespace incipit {

// The size of a prompt, which is a text or token ids. For a text, `num_ids_min` is 0. For token
// ids, `text_bytes` is 0.
struct PromptSize {
  int64_t text_bytes = 0;   // size of the prompt text in bytes
  int64_t num_ids_min = 0;  // minimum number of token ids in the prompt
};

// The numbers of the protobuf fields that contain the prompt of a message.
struct PromptFields {
  int text = 0;       // number of the field that contains the prompt as text
  int token_ids = 0;  // number of the field that contains the prompt as a message with token ids
  int ids = 0;        // field number of the list of ids, in the message with token ids
};

// Returns the size of the prompt in the serialized message `bytes`. `fields` are the numbers of the
// fields with the prompt. Reads only the tags and lengths of the fields. Returns zeros if the
// message has more than 64 fields or is invalid.
PromptSize PromptSizeOf(const grpc::ByteBuffer& bytes, const PromptFields& fields);

}  // namespace incipit
