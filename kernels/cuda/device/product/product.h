// Types and functions of all matrix-product kernels. A product is scale * x * transpose of the
// weight, with one scale for each row of the input x. An epilogue (a class) stores the results. All
// kernels add in the same order, so that their results have the same bits.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/product/packed_order.h"
#include "kernels/cuda/device/vectors.h"

namespace incipit::cuda {

struct ProductInput {
  const int32_t* num_rows = nullptr;
  // input matrix, bf16 [num_rows, columns]; `columns` is a multiple of 8
  const dev::bf16* x = nullptr;
  // weight in packed order (packed_order.h): num_units units of 16 packed rows
  const dev::bf16* weight = nullptr;
  int32_t columns = 0, num_units = 0;
  // Sums of squares of parts of each input row, f32 [num_rows, num_squares]. The kernel computes
  // the RMSNorm factor of a row from these sums. Null: no RMSNorm.
  const float* squares = nullptr;
  int32_t num_squares = 0;
  float epsilon = 0;
};

// Arguments of a matrix-product kernel. `Epilogue` is a class that stores the results: LoadRow and
// Begin load constants before the results exist, and Run stores four results. All lanes of a warp
// call each function together.
template <class Epilogue>
struct ProductArgs {
  ProductInput input;
  typename Epilogue::Args epilogue;
};

// Selects the four results of a product that a lane passes to the epilogue (the class that stores
// results): those of one token and four packed weight rows. The lanes of a warp together pass the
// results of 8 tokens and 16 packed weight rows.
struct LanePosition {
  // `token`: index of the token, in [0, 8). `quad`: index of the group of four packed weight rows,
  // in [0, 4).
  int token, quad;
};
INCIPIT_DEVICE LanePosition PositionOfLane() {
  const int lane = dev::Lane();
  return {(lane >> 1 & 3) * 2 + (lane >> 3 & 1), (lane & 1) + (lane >> 4) * 2};
}

// Four results of a product: input row `row`, multiplied by four packed weight rows. The four
// weight rows are group `quad` (0 to 3) of unit `unit` (16 packed weight rows). `valid` is false if
// the input has no row `row`.
struct Results {
  int unit = 0, quad = 0, row = 0;
  bool valid = false;
  float y[4];
};
// Base class of an epilogue that loads nothing before the results exist. An epilogue is a class
// that stores the results of a matrix product.
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

// Epilogue StoreRows: adds the bias to each result of a matrix product and stores the sum in `out`.
template <class OutputType>
struct StoreRows : BeginsWithResults {
  using Output = OutputType;  // number type of the stored results: float or dev::bf16
  struct Args {
    Output* out = nullptr;        // [num_rows, width]
    const float* bias = nullptr;  // bias that is added to each row, f32 [width]; null: no bias
    int32_t width = 0;  // number of columns of `out`, which is the number of rows of the weight
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

// Epilogue AddToHidden: adds the product and the bias to `hidden`. If `next_norm` is not null, also
// stores hidden * next_norm (the input of the next product) and sums of squares of `hidden`.
struct AddToHidden : BeginsWithResults {
  struct Args {
    // Input and output: hidden state, f32 [num_rows, hidden_size]; hidden_size is a multiple of 8
    float* hidden = nullptr;
    // Bias that is added to each row, f32 [hidden_size]; null: no bias.
    const float* bias = nullptr;
    // RMSNorm weight for the next product, f32 [hidden_size]; null: `x` and `squares` are not
    // stored
    const float* next_norm = nullptr;
    // Output [num_rows, hidden_size]: hidden * next_norm, the input of the next product. REQUIRES:
    // `x` is not the array that the current product reads.
    dev::bf16* x = nullptr;
    // Output [num_rows, hidden_size / 16 rounded up]: sum of squares of every 16 columns of
    // `hidden`
    float* squares = nullptr;
    int32_t hidden_size = 0;
  };
  // Memory traffic for each result: reads and writes `hidden` once (f32). If next_norm is not null,
  // also writes `x` once (bf16).
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

// Epilogue SiluGate: stores SiLU(gate + bias) * (up + bias). `gate` and `up` are the products of
// the input with two matrices. REQUIRES: the weight contains both matrices, packed with
// RowOrder::kGateUp.
struct SiluGate : BeginsWithResults {
  struct Args {
    dev::bf16* out = nullptr;  // output: MLP activations, bf16 [num_rows, width]
    // biases, f32 [2 * width]: first for matrix gate, then for matrix up; null: no biases
    const float* bias = nullptr;
    // number of columns of `out`, and of rows of each of the two matrices; a multiple of 8
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

// Epilogue StoreLogits: stores the logits. If `best_logits` is not null, also stores the largest of
// every 16 consecutive logits and its token id.
struct StoreLogits : BeginsWithResults {
  struct Args {
    float* logits = nullptr;  // [num_rows, vocab]
    // Output [num_rows, vocab / 16 rounded up]: the largest of every 16 consecutive logits; null:
    // not stored
    float* best_logits = nullptr;
    // Output [num_rows, vocab / 16 rounded up]: the token id of each logit in best_logits (the
    // lowest id of equal logits); null: not stored
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
  // Replaces `best` and `token` by `other` and `other_token` if `other` is larger. If the logits
  // are equal, keeps the lower token id. A NaN is larger than any number. If `other_token` is
  // `vocab`, does nothing.
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

// Stores the RMSNorm factors of kCount input rows, from row `first` on, in shared memory. Factors
// of rows from `num_rows` on are undefined. All lanes of a warp call FindScalesWarp together.
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
  // Each lane starts 32 loads, and only then uses the first loaded number, to hide the latency of
  // memory. kTogether rows are processed at a time.
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
