// Defines where a key or a value is stored in the KV pool. The KV pool is an array [layer][page][K
// or V][kv_head] of tiles. A tile holds the keys (or the values) of one page for one kv head:
// page_size x head_dim bf16 numbers. One bulk copy loads a tile into shared memory. Sizes and
// offsets in this file count elements, not bytes.
#pragma once

#include <cstdint>

#include "kernels/cuda/device/device.h"

namespace incipit::cuda {

inline constexpr int32_t kMaxHeadDim = 256;

enum class KvPart : uint8_t { kKey, kValue };

// Returns the offset in a tile, in elements, of dimension `dim` of the key (or value) of token
// `row` of the page.
//
// If head_dim is 64 or 128, a tile consists of half tiles of 64 dimensions, with 128 bytes for each
// token. Chunk c (16 bytes) of row r is stored at chunk index c ^ (r & 7), which avoids bank
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
  // Returns the offset, in elements from the start of the layer, of the tile that holds `part`
  // (keys or values) of page `page` for head `kv_head`.
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
