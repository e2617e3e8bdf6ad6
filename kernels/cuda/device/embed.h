// Kernel Embed: stores the embedding of each token of a batch in array `hidden`.
#pragma once

#include <cstdint>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/product/packed_order.h"
#include "kernels/cuda/device/step_plan.h"
#include "kernels/cuda/device/vectors.h"

namespace incipit::cuda {

struct EmbedShape {
  static constexpr int kThreads = 256;
};

template <class Shape>
struct Embed {
  static constexpr int kThreads = Shape::kThreads, kSharedBytes = 0, kBlocksPerSm = 2;

  struct Args {
    // Plan of the batch, with the token ids. A negative id n stands for token sampled[-1 - n].
    const StepHeader* step = nullptr;
    // Device array of i32 that holds the token ids that the previous batch sampled. The kernel
    // replaces an id outside of the vocabulary by 0.
    const int32_t* sampled = nullptr;
    // Embedding matrix, bf16 [vocab, hidden_size], in the packed order of packed_order.h
    const dev::bf16* table = nullptr;
    // sizes of the embedding matrix; hidden_size is a multiple of 8
    int32_t vocab = 0, hidden_size = 0;
    // output: f32 [rows, hidden_size]
    float* hidden = nullptr;
  };

  // Memory traffic: reads the embedding of each token once (bf16) and writes it once (f32).
  static INCIPIT_DEVICE void Run(const Args& args) {
    dev::LetNextKernelStart();
    dev::WaitForEarlierKernels();
    const int num_rows = dev::LoadConstant(&args.step->num_tokens);
    const auto* const tokens = reinterpret_cast<const int32_t*>(
        reinterpret_cast<const char*>(args.step) + dev::LoadConstant(&args.step->tokens));
    const int num_tiles = NumTiles(args.hidden_size);
    for (int row = dev::Block(); row < num_rows; row += dev::NumBlocks()) {
      int token = dev::LoadConstant(tokens + row);
      if (token < 0) token = dev::LoadGlobal(args.sampled + (-1 - token));
      if (token < 0 || token >= args.vocab) token = 0;
      float* const out = args.hidden + static_cast<int64_t>(row) * args.hidden_size;
      for (int column = 8 * dev::Thread(); column < args.hidden_size; column += 8 * kThreads) {
        const auto* const source =
            reinterpret_cast<const Vec4*>(args.table + PackedElement(num_tiles, token, column));
        const Vec4 pairs = dev::LoadConstant(source);
        INCIPIT_UNROLL
        for (int half = 0; half < 2; ++half) {
          const uint32_t low = pairs.word[2 * half], high = pairs.word[2 * half + 1];
          const float values[4] = {dev::LowFloat(low), dev::HighFloat(low), dev::LowFloat(high),
                                   dev::HighFloat(high)};
          StoreFloats(out + column + 4 * half, values);
        }
      }
    }
  }
};

}  // namespace incipit::cuda
