// Kernel CopyPages: copies the keys and values of the first tokens of a KV cache page to another
// page, in all layers. A page is the memory for a fixed number of tokens.
#pragma once

#include <cstdint>

#include "kernels/cuda/device/attention/page_layout.h"
#include "kernels/cuda/device/device.h"

namespace incipit::cuda {

struct CopyPagesShape {
  static constexpr int kThreads = 256;
};

template <class Shape>
struct CopyPages {
  static constexpr int kThreads = Shape::kThreads, kSharedBytes = 0, kBlocksPerSm = 2;

  struct Args {
    const int32_t* count = nullptr;
    // Four i32 for each copy: source page, target page, number of tokens, 0. REQUIRES: no copy
    // reads a page that another copy writes.
    const dev::Vec4* copies = nullptr;
    // The memory of all keys and values (page_layout.h). In each layer, a page consists of
    // tiles_per_page contiguous blocks (tiles) of tile_bytes bytes.
    char* pool = nullptr;
    int64_t layer_bytes = 0;
    int32_t num_layers = 0, tiles_per_page = 0, tile_bytes = 0, row_bytes = 0;

    void SetLayout(const KvLayout& layout, int32_t layers, int32_t num_pages) {
      const bool halves = layout.head_dim == 64 || layout.head_dim == 128;
      row_bytes = halves ? 128 : layout.head_dim * 2;
      tile_bytes = layout.page_size * row_bytes;
      tiles_per_page = 2 * layout.num_kv_heads * (layout.TileSize() * 2 / tile_bytes);
      layer_bytes = layout.LayerSize(num_pages) * 2;
      num_layers = layers;
    }
  };

  // Memory traffic: reads and writes the keys and values of the copied tokens once, in all layers.
  static INCIPIT_DEVICE void Run(const Args& args) {
    dev::LetNextKernelStart();
    dev::WaitForEarlierKernels();
    const int num_items = dev::LoadConstant(args.count) * args.num_layers;
    const int64_t page_bytes = static_cast<int64_t>(args.tiles_per_page) * args.tile_bytes;
    for (int item = dev::Block(); item < num_items; item += dev::NumBlocks()) {
      const dev::Vec4 copy = dev::LoadConstant(args.copies + item / args.num_layers);
      char* const layer = args.pool + item % args.num_layers * args.layer_bytes;
      const char* const from = layer + static_cast<int32_t>(copy.word[0]) * page_bytes;
      char* const to = layer + static_cast<int32_t>(copy.word[1]) * page_bytes;
      const int chunks_per_tile = static_cast<int>(copy.word[2]) * args.row_bytes / 16;
      if (chunks_per_tile == 0) continue;
      for (int i = dev::Thread(); i < chunks_per_tile * args.tiles_per_page; i += kThreads) {
        const int64_t offset =
            static_cast<int64_t>(i / chunks_per_tile) * args.tile_bytes + i % chunks_per_tile * 16;
        const dev::Vec4 bytes = dev::LoadGlobal(reinterpret_cast<const dev::Vec4*>(from + offset));
        dev::StoreGlobal(reinterpret_cast<dev::Vec4*>(to + offset), bytes);
      }
    }
  }
};

}  // namespace incipit::cuda
