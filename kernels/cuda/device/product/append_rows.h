// Epilogue AppendRows: the last part of a matrix-product kernel. Adds the bias to queries, keys and
// values, applies the rotary embedding, and stores the results. Models that apply RMSNorm to
// attention heads use kernel Append (append.h) instead.
#pragma once

#include "kernels/cuda/device/attention/append.h"
#include "kernels/cuda/device/attention/attention_args.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/product/product.h"
#include "kernels/cuda/device/vectors.h"

namespace incipit::cuda {

// Epilogue that stores queries, keys and values. Each row of the product belongs to a token of the
// batch. RowOrder::kRotary orders the weight rows so that one warp holds both elements that the
// rotary embedding combines.
struct AppendRows {
  // The fields product, query_norm and key_norm are not used. REQUIRES: head_dim is a multiple of
  // 16.
  using Args = AppendArgs;

  struct Row {
    int position = 0, slot = -1;
  };
  static INCIPIT_DEVICE Row LoadRow(const Args& args, const Results& at) {
    if (!at.valid) return {};
    const StepRow row = RowAt(RowsOf(args.step), at.row);
    return {row.position, row.slot};
  }

  struct Early {
    int slot = -1;
    // Cosines and sines from the rotary embedding table; not set for value heads
    float cosine[4] = {}, sine[4] = {};
  };
  static INCIPIT_DEVICE Early Begin(const Args& args, const Results& at, Row row) {
    Early early;
    const HeadPosition position(args, at);
    if (at.valid) early.slot = row.slot;
    if (early.slot < 0 || !position.is_rotated) return early;
    const int head_dim = args.layout.head_dim;
    const float* const angles = args.rope + int64_t{row.position} * head_dim + position.in_half;
    LoadConstantFloats(angles, early.cosine);
    LoadConstantFloats(angles + head_dim / 2, early.sine);
    return early;
  }

  // Memory traffic: writes each result once as bf16. Also reads the cosines and sines of the token
  // for each query head and key head.
  static INCIPIT_DEVICE void Run(const Args& args, Results& results, const Early& early) {
    const HeadPosition position(args, results);
    const int head_dim = args.layout.head_dim;
    const int dim = position.in_half + (position.is_high ? head_dim / 2 : 0);
    float(&y)[4] = results.y;
    if (args.bias != nullptr) AddConstantFloats(args.bias + position.head * head_dim + dim, y);
    // The branch is the same in all lanes of a warp, because a warp processes elements of only one
    // attention head.
    if (position.is_rotated) {
      INCIPIT_UNROLL
      for (int i = 0; i < 4; ++i) {
        const float sine = position.is_high ? early.sine[i] : -early.sine[i];
        y[i] = Rotated(y[i], dev::ShuffleXorWarp(y[i], 16), early.cosine[i], sine);
      }
    }
    if (early.slot < 0) return;
    StoreBF16s(ElementOf(args, early.slot, results.row, position.head, dim), y);
  }

 private:
  struct HeadPosition {
    // `head`: index of the attention head (query heads, then key heads, then value heads).
    // `in_half`: index of the lane's first element, counted from the start of the half of the head
    // that contains the element.
    int head, in_half;
    bool is_rotated, is_high;

    INCIPIT_DEVICE HeadPosition(const Args& args, const Results& at) {
      const unsigned unit = at.unit, units = args.layout.head_dim / kUnitRows;
      head = static_cast<int>(unit / units);
      in_half = static_cast<int>(unit % units) * 8 + at.quad % 2 * 4;
      is_rotated = head < args.num_heads + args.layout.num_kv_heads;
      is_high = at.quad >= 2;
    }
  };
};

}  // namespace incipit::cuda
