// Reads the size of a prompt from a serialized message without parsing the whole message.
#pragma once

#include <cstdint>

namespace grpc {
class ByteBuffer;
}

namespace incipit {

// The size of a prompt that is a text or a list of token ids. At most one field is above 0.
struct PromptSize {
  int64_t text_bytes = 0;   // size of the prompt text in bytes
  int64_t num_ids_min = 0;  // lower bound of the number of token ids
};

// Returns the size of the prompt of the GenerateRequest in `bytes`. Reads only the tags and lengths
// of at most 64 fields. Returns zeros if the message has more fields, or if a tag or a length is
// malformed.
PromptSize PromptSizeOf(const grpc::ByteBuffer& bytes);

}  // namespace incipit
