// The common parts of the matrix-product kernels. A product computes y[row] = scale(row) * x[row] *
// transpose of W. Then an epilogue (a class that stores the results) processes four neighbouring
// results of a row at a time.
//
// x        bf16 [num_rows, columns]; `columns` is a multiple of 8
// weight   W, packed as num_units units of 16 rows (kernels/cuda/device/product/packed_order.h)
// squares  f32 [num_rows, num_squares], or null (then scale(row) is 1). The sum of a row of
//          `squares` is the sum of squares of the hidden row from which x was computed:
//          scale(row) = 1 / sqrt(sum / columns + epsilon)
//
// A kernel neither reads nor writes rows from num_rows on. Results are summed in the order that
// packed_order.h defines, so a row has the same bits in every product kernel and beside any other
// rows.
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
  // Parts of the sum of squares of each row of hidden; null: rows are not scaled
  const float* squares = nullptr;
  int32_t num_squares = 0;
  float epsilon = 0;
};

template <class Epilogue>
struct ProductArgs {
  ProductInput input;
  typename Epilogue::Args epilogue;
};

// Assigns results to the 32 lanes of a warp. A warp finishes the 16 results of a unit (16 packed
// rows of the weight) for 8 tokens: each lane finishes four consecutive results (a quad) of one
// token. With this assignment neighbouring lanes read different banks of shared memory.
struct LanePosition {
  int token, quad;  // token in [0, 8); quad (four consecutive results) in [0, 4)
};
INCIPIT_DEVICE LanePosition PositionOfLane() {
  const int lane = dev::Lane();
  return {(lane >> 1 & 3) * 2 + (lane >> 3 & 1), (lane & 1) + (lane >> 4) * 2};
}

// Four results of a product for row `row` of x: the products with rows [r, r + 4) of the packed
// weight, where r = 16 * unit + 4 * quad. `valid` is true if `row` exists.
struct Results {
  int unit = 0, quad = 0, row = 0;
  bool valid = false;
  float y[4];
};
// Base of an epilogue that loads no constants before the results exist. All lanes of a warp call an
// epilogue together, for the same unit (16 packed weight rows). An epilogue has three functions.
// LoadRow and Begin load constants before the results exist, so these loads overlap the
// multiplication. LoadRow is called once for each row, with any unit. Begin is called for each unit
// and quad (four of the 16 rows). Run then receives the results and the value that Begin returned.
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

// Epilogue StoreRows: stores product + bias in `out`.
template <class OutputType>
struct StoreRows : BeginsWithResults {
  using Output = OutputType;  // type of the stored results, float or bf16
  struct Args {
    Output* out = nullptr;        // [num_rows, width]
    const float* bias = nullptr;  // f32 [width], or null: no bias
    int32_t width = 0;  // number of rows of the weight, equal to the number of columns of `out`
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

// Epilogue AddToHidden: adds product + bias to `hidden`. If `next_norm` is not null, the epilogue
// also stores the input of the next product: x = hidden * next_norm, and the sums of squares of
// `hidden`, one sum for every 16 columns. Memory traffic: 8 bytes for each result; with next_norm
// also 2 bytes for each result and 4 bytes for each row and 16 columns.
struct AddToHidden : BeginsWithResults {
  struct Args {
    // Input and output: [num_rows, hidden_size]; hidden_size is a multiple of 8
    float* hidden = nullptr;
    const float* bias = nullptr;  // f32 [hidden_size], or null: no bias
    // RMSNorm weight of the next product's input, [hidden_size], or null
    const float* next_norm = nullptr;
    // Output [num_rows, hidden_size], stored if next_norm is not null. Must not be the x that this
    // product reads.
    dev::bf16* x = nullptr;
    // Output [num_rows, hidden_size / 16 rounded up], if next_norm is not null
    float* squares = nullptr;
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

// Returns x / (1 + exp(-x)).
INCIPIT_DEVICE float Silu(float x) {
  constexpr float kLog2E = 1.44269504088896340736F;
  return dev::Multiply(x, dev::Reciprocal(dev::Add(1, dev::Exp2(dev::Multiply(-x, kLog2E)))));
}

// Epilogue SiluGate: stores SiLU(gate + bias) * (up + bias), where gate and up are the two halves
// of the results. REQUIRES: the weight is packed with RowOrder::kGateUp.
struct SiluGate : BeginsWithResults {
  struct Args {
    dev::bf16* out = nullptr;  // output: bf16 [num_rows, width]
    // f32 [2 * width]: the biases of gate, then the biases of up; or null
    const float* bias = nullptr;
    // Number of rows of gate, equal to the number of rows of up; a multiple of 8
    int32_t width = 0;
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

// Epilogue StoreLogits: stores the logits. If `best_logits` is not null, the epilogue also stores
// the largest logit of every 16 consecutive token ids, and its token id. Of equal logits the
// epilogue stores the lowest token id. A NaN counts as larger than any number.
struct StoreLogits : BeginsWithResults {
  struct Args {
    float* logits = nullptr;  // [num_rows, vocab]
    // Largest logit of every 16 token ids: [num_rows, vocab / 16 rounded up], or null
    float* best_logits = nullptr;
    // Token ids of best_logits: [num_rows, vocab / 16 rounded up], or null
    int32_t* best_tokens = nullptr;
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
  // Replaces (best, token) by (other, other_token) if `other` is larger than `best`, or if both are
  // equal and `other_token` is lower. A NaN counts as larger than any number. Token `vocab` means
  // "no token".
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

// Computes scale(row), the factor of the RMSNorm, of rows [first, first + kCount) and stores the
// scales in shared memory. One warp calls FindScalesWarp. The scales of rows from num_rows on are
// undefined.
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
  // Each lane has 32 loads in flight at a time. With one load at a time, this function would take
  // longer than a separate kernel for the scales.
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
