// What the products have in common: y[row] = scale(row) * x[row] * W^T, then an epilogue that takes
// four neighbouring results of a row at a time.
//
// x        bf16 [num_rows, columns], columns a multiple of 8
// weight   packed, num_units units of 16 rows (kernels/cuda/device/product/packed_order.h)
// squares  f32 [num_rows, num_squares], or none (then scale is 1): parts of the sum of squares of
//          the row that x was made of, for scale(row) = 1 / sqrt(sum / columns + epsilon)
//
// Rows from num_rows on, up to the columns of tokens that the kernel was built for, are neither
// read nor written. A result is summed as packed_order.h says, so a row has the same bits in every
// product kernel and beside any other rows.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/product/packed_order.h"
#include "kernels/cuda/device/vectors.h"

namespace incipit::cuda {

struct ProductInput {
  const int32_t* num_rows = nullptr;
  const dev::bf16* x = nullptr;
  const dev::bf16* weight = nullptr;
  int32_t columns = 0, num_units = 0;
  const float* squares = nullptr;  // or none
  int32_t num_squares = 0;
  float epsilon = 0;
};

template <class Epilogue>
struct ProductArgs {
  ProductInput input;
  typename Epilogue::Args epilogue;
};

// Lanes of a warp take the 16 results of a unit for 8 tokens: a lane four of one token. Neighbours
// read different banks of the staged results, and the four lanes of a token are one warp's.
struct LanePosition {
  int token, quad;  // of 8, of 4
};
INCIPIT_DEVICE LanePosition PositionOfLane() {
  const int lane = dev::Lane();
  return {(lane >> 1 & 3) * 2 + (lane >> 3 & 1), (lane & 1) + (lane >> 4) * 2};
}

// The four results of packed rows 16 * unit + 4 * quad and on, of one row. `valid` says whether
// that row is one; all lanes of a warp call together, with one unit.
//
// An epilogue has two functions for which there need be no results yet, so that constants are on
// their way while the sums are made: LoadRow, for any unit of the row, and then Begin, for the
// place. Run has what Begin gave.
struct Results {
  int unit = 0, quad = 0, row = 0;
  bool valid = false;
  float y[4];
};
struct BeginsWithResults {
  struct Row {};
  struct Early {};
  template <class Args>
  static INCIPIT_DEVICE Row LoadRow(const Args&, const Results&) {
    return {};
  }
  template <class Args>
  static INCIPIT_DEVICE Early Begin(const Args&, const Results&, Row) {
    return {};
  }
};

// out = y + bias.
template <class OutputType>
struct StoreRows : BeginsWithResults {
  using Output = OutputType;  // float or bf16
  struct Args {
    Output* out = nullptr;        // [num_rows, width]
    const float* bias = nullptr;  // [width], or none
    int32_t width = 0;            // rows of the weight
  };
  static INCIPIT_DEVICE void Run(const Args& args, Results& results, Early) {
    const int column = results.unit * kUnitRows + results.quad * 4;
    if (!results.valid || column >= args.width) return;
    float(&y)[4] = results.y;
    Output* const out = args.out + static_cast<int64_t>(results.row) * args.width + column;
    if (args.width % 4 != 0) {
      INCIPIT_UNROLL
      for (int i = 0; i < 4; ++i) {
        if (column + i < args.width) StoreOne(args, column + i, y[i], out + i);
      }
      return;
    }
    if (args.bias != nullptr) AddConstantFloats(args.bias + column, y);
    if constexpr (std::is_same_v<Output, float>) {
      StoreFloats(out, y);
    } else {
      const dev::Vec2 pairs = {{dev::PackBF16(y[0], y[1]), dev::PackBF16(y[2], y[3])}};
      dev::StoreGlobal(reinterpret_cast<dev::Vec2*>(out), pairs);
    }
  }

 private:
  static INCIPIT_DEVICE void StoreOne(const Args& args, int column, float y, Output* out) {
    if (args.bias != nullptr) y = dev::Add(y, dev::LoadConstant(args.bias + column));
    if constexpr (std::is_same_v<Output, float>) {
      dev::StoreGlobal(out, y);
    } else {
      dev::StoreGlobal(out, dev::ToBF16(y));
    }
  }
};

// hidden += y + bias. On the way out, if wanted, what the next product takes: x = hidden *
// next_norm, and the sum of squares of hidden, a part for each unit. Moves 8 bytes for each result,
// with next_norm 2 more, and 4 for each unit and row.
struct AddToHidden : BeginsWithResults {
  struct Args {
    float* hidden = nullptr;           // [num_rows, hidden_size], hidden_size a multiple of 8
    const float* bias = nullptr;       // [hidden_size], or none
    const float* next_norm = nullptr;  // [hidden_size], or none
    dev::bf16* x = nullptr;            // [num_rows, hidden_size], with next_norm; not the input's x
    float* squares = nullptr;          // [num_rows, units], with next_norm
    int32_t hidden_size = 0;
  };
  static INCIPIT_DEVICE void Run(const Args& args, Results& results, Early) {
    const int column = results.unit * kUnitRows + results.quad * 4;
    const bool valid = results.valid && column < args.hidden_size;
    const int64_t element = static_cast<int64_t>(results.row) * args.hidden_size + column;
    float sum[4] = {0, 0, 0, 0};
    if (valid) {
      float(&y)[4] = results.y;
      if (args.bias != nullptr) AddConstantFloats(args.bias + column, y);
      LoadFloats(args.hidden + element, sum);
      INCIPIT_UNROLL
      for (int i = 0; i < 4; ++i) sum[i] = dev::Add(sum[i], y[i]);
      StoreFloats(args.hidden + element, sum);
    }
    if (args.next_norm == nullptr) return;
    float squares = 0;
    INCIPIT_UNROLL
    for (int i = 0; i < 4; ++i) squares = dev::Fma(sum[i], sum[i], squares);
    squares = dev::Add(squares, dev::ShuffleXorWarp(squares, 1));
    squares = dev::Add(squares, dev::ShuffleXorWarp(squares, 16));
    if (results.valid && results.quad == 0) {
      const int64_t num_units = NumUnits(RowOrder::kPlain, args.hidden_size);
      dev::StoreGlobal(args.squares + results.row * num_units + results.unit, squares);
    }
    if (!valid) return;
    float weight[4];
    LoadConstantFloats(args.next_norm + column, weight);
    INCIPIT_UNROLL
    for (int i = 0; i < 4; ++i) sum[i] = dev::Multiply(sum[i], weight[i]);
    const dev::Vec2 pairs = {{dev::PackBF16(sum[0], sum[1]), dev::PackBF16(sum[2], sum[3])}};
    dev::StoreGlobal(reinterpret_cast<dev::Vec2*>(args.x + element), pairs);
  }
};

// x / (1 + exp(-x)).
INCIPIT_DEVICE float Silu(float x) {
  constexpr float kLog2E = 1.44269504088896340736F;
  return dev::Multiply(x, dev::Reciprocal(dev::Add(1, dev::Exp2(dev::Multiply(-x, kLog2E)))));
}

// out = SiLU(gate + its bias) * (up + its bias), of a weight packed with RowOrder::kGateUp.
struct SiluGate : BeginsWithResults {
  struct Args {
    dev::bf16* out = nullptr;     // [num_rows, width]
    const float* bias = nullptr;  // [2 * width]: gate's, then up's; or none
    int32_t width = 0;            // a multiple of 8
  };
  static INCIPIT_DEVICE void Run(const Args& args, Results& results, Early) {
    const int column = results.unit * 8 + results.quad % 2 * 4;
    float(&y)[4] = results.y;
    if (args.bias != nullptr && column < args.width) {
      AddConstantFloats(args.bias + results.quad / 2 * args.width + column, y);
    }
    float up[4];
    INCIPIT_UNROLL
    for (int i = 0; i < 4; ++i) up[i] = dev::ShuffleXorWarp(y[i], 16);
    if (!results.valid || results.quad >= 2 || column >= args.width) return;
    INCIPIT_UNROLL
    for (int i = 0; i < 4; ++i) y[i] = dev::Multiply(Silu(y[i]), up[i]);
    const dev::Vec2 pairs = {{dev::PackBF16(y[0], y[1]), dev::PackBF16(y[2], y[3])}};
    dev::bf16* const out = args.out + static_cast<int64_t>(results.row) * args.width + column;
    dev::StoreGlobal(reinterpret_cast<dev::Vec2*>(out), pairs);
  }
};

// logits = y, and the greatest of each unit with its token (the lowest of equals; a NaN is greater
// than any number), if wanted.
struct StoreLogits : BeginsWithResults {
  struct Args {
    float* logits = nullptr;         // [num_rows, vocab]
    float* best_logits = nullptr;    // [num_rows, units], or none
    int32_t* best_tokens = nullptr;  // likewise
    int32_t vocab = 0;
  };
  static INCIPIT_DEVICE void Run(const Args& args, Results& results, Early) {
    const StoreRows<float>::Args rows = {args.logits, nullptr, args.vocab};
    StoreRows<float>::Run(rows, results, {});
    if (args.best_logits == nullptr) return;
    const int first = results.unit * kUnitRows + results.quad * 4;
    float best = results.y[0];
    int token = first < args.vocab ? first : args.vocab;
    INCIPIT_UNROLL
    for (int i = 1; i < 4; ++i) {
      if (first + i < args.vocab) Keep(best, token, results.y[i], first + i, args.vocab);
    }
    INCIPIT_UNROLL
    for (int mask = 1; mask <= 16; mask *= 16) {
      const float other = dev::ShuffleXorWarp(best, mask);
      Keep(best, token, other, dev::ShuffleXorWarp(token, mask), args.vocab);
    }
    if (results.valid && results.quad == 0) {
      const int64_t num_units = NumUnits(RowOrder::kPlain, args.vocab);
      dev::StoreGlobal(args.best_logits + results.row * num_units + results.unit, best);
      dev::StoreGlobal(args.best_tokens + results.row * num_units + results.unit, token);
    }
  }

 private:
  // Token `vocab` stands for none.
  static INCIPIT_DEVICE void Keep(float& best, int& token, float other, int other_token,
                                  int vocab) {
    if (other_token == vocab) return;
    const bool other_nan = other != other, nan = best != best;
    const bool greater = other_nan ? !nan : !nan && other > best;
    const bool equal = other_nan ? nan : other == best;
    if (token == vocab || greater || (equal && other_token < token)) {
      best = other;
      token = other_token;
    }
  }
};

INCIPIT_DEVICE float ScaleOf(const ProductInput& input, float squares) {
  const float mean = dev::Divide(squares, static_cast<float>(input.columns));
  return dev::Divide(1, dev::SquareRoot(dev::Add(mean, input.epsilon)));
}

// The factors of rows first .. first + kCount, to shared memory: a warp's work. Rows from num_rows
// on have any.
template <int kCount>
INCIPIT_DEVICE void FindScalesWarp(const ProductInput& input, int first, int num_rows,
                                   float* scales) {
  if (input.squares == nullptr || input.num_squares == 1) {
    for (int i = dev::Lane(); i < kCount; i += 32) {
      const bool scaled = input.squares != nullptr && first + i < num_rows;
      const float scale =
          scaled ? ScaleOf(input, dev::LoadGlobal(input.squares + first + i)) : 1.0F;
      dev::StoreShared(scales + i, scale);
    }
    dev::SyncWarp();
    return;
  }
  // 32 loads of a lane are on their way together: one after the other, the rows would take longer
  // than a kernel of their own.
  constexpr int kTogether = kCount % 8 == 0 ? 8 : kCount % 4 == 0 ? 4 : 2, kDeep = 32 / kTogether;
  INCIPIT_KEEP_LOOP
  for (int begin = 0; begin < kCount && first + begin < num_rows; begin += kTogether) {
    const int row = first + begin;
    const float* const parts = input.squares + static_cast<int64_t>(row) * input.num_squares;
    float sums[kTogether] = {};
    INCIPIT_KEEP_LOOP
    for (int j = dev::Lane(); j < input.num_squares; j += 32 * kDeep) {
      float part[kTogether][kDeep];
      INCIPIT_UNROLL
      for (int i = 0; i < kTogether * kDeep; ++i) {
        const int more = i / kDeep, k = j + i % kDeep * 32;
        const bool exists = row + more < num_rows && k < input.num_squares;
        part[more][i % kDeep] =
            exists ? dev::LoadGlobal(parts + more * input.num_squares + k) : 0.0F;
      }
      INCIPIT_UNROLL
      for (int i = 0; i < kTogether * kDeep; ++i) {
        sums[i / kDeep] = dev::Add(sums[i / kDeep], part[i / kDeep][i % kDeep]);
      }
    }
    INCIPIT_UNROLL
    for (int i = 0; i < kTogether; ++i) {
      const float scale = ScaleOf(input, SumWarp(sums[i]));
      if (dev::Lane() == 0) dev::StoreShared(scales + begin + i, scale);
    }
  }
  dev::SyncWarp();
}

}  // namespace incipit::cuda
