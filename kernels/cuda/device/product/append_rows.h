// The epilogue of the product (product.h) that makes queries, keys and values: what Append
// (append.h) does after it, to the bit, without a norm of heads. The weight is packed with
// RowOrder::kRotary, so that the four lanes of a token have 8 numbers of a head's first half and
// the 8 that these are rotated with; rows of the product are tokens of the step.
//
// Moves for each row and head 2 * head_dim bytes of results, in pieces of 16, and of constants, for
// each unit of 16, at most the row's StepRow and, but for values, 64 bytes of the rope table. These
// do not wait for the results.
#pragma once

#include "kernels/cuda/device/attention/append.h"
#include "kernels/cuda/device/attention/attention_args.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/product/product.h"
#include "kernels/cuda/device/vectors.h"

namespace incipit::cuda {

struct AppendRows {
  using Args = AppendArgs;  // without `product` and norms; head_dim a multiple of 16

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
    float cosine[4] = {}, sine[4] = {};  // if the head is rotated
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

  static INCIPIT_DEVICE void Run(const Args& args, Results& results, const Early& early) {
    const HeadPosition position(args, results);
    const int head_dim = args.layout.head_dim;
    const int dim = position.in_half + (position.is_high ? head_dim / 2 : 0);
    float(&y)[4] = results.y;
    if (args.bias != nullptr) AddConstantFloats(args.bias + position.head * head_dim + dim, y);
    if (position.is_rotated) {  // or not, for all lanes: a warp has one unit
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
    int head, in_half;  // of queries, then keys, then values; the first of four
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
