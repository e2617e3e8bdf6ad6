// Defines where keys and values are stored in GPU memory (the KV pool): an array [layer][page][key
// or value][kv_head] of tiles. A tile holds the keys (or the values) of page_size tokens for one kv
// head: page_size x head_dim bf16 numbers. All sizes and offsets in this file count elements, not
// bytes.
#pragma once

#include <cstdint>

#include "kernels/cuda/device/device.h"

namespace incipit::cuda {

inline constexpr int32_t kMaxHeadDim = 256;

enum class KvPart : uint8_t { kKey, kValue };

// Returns the offset, in elements, of dimension `dim` of token `row` in a tile. A tile holds the
// keys (or the values) of one page for one kv head. The order of 16-byte chunks avoids bank
// conflicts in shared memory.
INCIPIT_ANYWHERE constexpr int32_t OffsetInTile(int32_t page_size, int32_t head_dim, int32_t row,
                                                int32_t dim) {
  if (head_dim != 64 && head_dim != 128) return row * head_dim + dim;
  const int32_t chunk = ((dim & 63) >> 3) ^ (row & 7);
  return ((dim >> 6) * page_size + row) * 64 + chunk * 8 + (dim & 7);
}

struct KvLayout {
  int32_t page_size = 0, num_kv_heads = 0, head_dim = 0;

  INCIPIT_ANYWHERE constexpr int32_t TileSize() const { return page_size * head_dim; }
  INCIPIT_ANYWHERE constexpr int64_t PageSize() const {
    return int64_t{2} * num_kv_heads * TileSize();
  }
  INCIPIT_ANYWHERE constexpr int64_t LayerSize(int32_t num_pages) const {
    return PageSize() * num_pages;
  }
  // Returns the offset, in elements from the start of a layer, of the keys (or the values) of page
  // `page` for head `kv_head`.
  INCIPIT_ANYWHERE constexpr int64_t TileOffset(int32_t page, KvPart part, int32_t kv_head) const {
    return PageSize() * page +
           int64_t{TileSize()} * ((part == KvPart::kValue ? num_kv_heads : 0) + kv_head);
  }
  INCIPIT_ANYWHERE constexpr int64_t Offset(int32_t page, KvPart part, int32_t kv_head, int32_t row,
                                            int32_t dim) const {
    return TileOffset(page, part, kv_head) + OffsetInTile(page_size, head_dim, row, dim);
  }
};

}  // namespace incipit::cuda
