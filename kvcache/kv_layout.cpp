#include "kvcache/kv_layout.h"

#include <algorithm>

#include "base/check.h"

namespace incipit {
namespace {

// Estimated memory for the metadata of one block, in bytes: its Block structure, and its part of
// the hash table of block keys and of other tables.
constexpr uint64_t kMetadataBytesPerBlock = 128;

}  // namespace

int64_t BytesPerBlock(const KvLayout& layout) {
  INCIPIT_CHECK(layout.num_layers > 0 && layout.num_kv_heads > 0 && layout.head_dim > 0);
  INCIPIT_CHECK(layout.bytes_per_element > 0 && layout.block_size > 0);
  return int64_t{2} * layout.num_layers * layout.block_size * layout.num_kv_heads *
         layout.head_dim * layout.bytes_per_element;
}

int32_t BlocksThatFit(const KvLayout& layout, uint64_t memory_bytes) {
  // Memory for the token ids of a block, in bytes.
  const uint64_t tokens = 4 * static_cast<uint64_t>(layout.block_size);
  const uint64_t each =
      static_cast<uint64_t>(BytesPerBlock(layout)) + kMetadataBytesPerBlock + tokens;
  return static_cast<int32_t>(std::min<uint64_t>(memory_bytes / each, kBlocksMax));
}

}  // namespace incipit
