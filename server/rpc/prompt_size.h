// How long a prompt is, from the outline of its message, before anyone parses it.
#pragma once

#include <cstdint>

namespace grpc {
class ByteBuffer;
}

namespace incipit {

// At most one of the two is above 0.
struct PromptSize {
  int64_t text_bytes = 0;
  int64_t num_ids_min = 0;  // there are at least so many ids
};

// Returns the size of the prompt of the GenerateRequest in `bytes`. Reads the tags of at most 64
// fields, those of TokenIds included, and skips their contents. Returns zeros if there are more
// fields, a group, or a field that is malformed. Ids that are not packed count 0.
PromptSize PromptSizeOf(const grpc::ByteBuffer& bytes);

}  // namespace incipit
