// The memory size of a cache block, and the number of blocks that fit into a given memory size.
#pragma once

#include <cstddef>
#include <cstdint>

namespace incipit {

inline constexpr int32_t kBlocksMax = 1 << 28;

// The shape of the cached keys and values. In each layer, one token has num_kv_heads * head_dim
// elements of keys and as many elements of values.
struct KvLayout {
  int32_t num_layers = 0, num_kv_heads = 0, head_dim = 0;
  int32_t bytes_per_element = 0;
  int32_t block_size = 16;  // tokens per block
};

int64_t BytesPerBlock(const KvLayout& layout);

// Returns how many whole blocks, with their metadata, fit into `memory_bytes` bytes, at most
// kBlocksMax.
int32_t BlocksThatFit(const KvLayout& layout, uint64_t memory_bytes);

}  // namespace incipit
