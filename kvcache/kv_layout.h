// How much memory a block takes, and how many fit: what turns "this much memory" into num_blocks.
#pragma once

#include <cstddef>
#include <cstdint>

namespace incipit {

inline constexpr int32_t kBlocksMax = 1 << 28;

// Keys and values of one token in one layer are num_kv_heads * head_dim elements each.
struct KvLayout {
  int32_t num_layers = 0, num_kv_heads = 0, head_dim = 0;
  int32_t bytes_per_element = 0;
  int32_t block_size = 16;  // tokens
};

int64_t BytesPerBlock(const KvLayout& layout);

// Whole blocks in `memory_bytes`, what this process keeps about each included; at most
// kBlocksMax.
int32_t BlocksThatFit(const KvLayout& layout, uint64_t memory_bytes);

}  // namespace incipit
