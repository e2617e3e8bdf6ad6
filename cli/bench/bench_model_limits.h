// Computes the minimum work of a step of a model (arithmetic operations and bytes read), and the
// minimum time that a machine needs for this work.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "cli/bench/timed_backend.h"
#include "kernels/machine_rates.h"
#include "kernels/tensor.h"
#include "transformer/config.h"

namespace incipit {

// Element type of the weight matrices of a model.
enum class MatrixType : uint8_t { kF32, kF16, kBF16, kInt8 };
std::string_view NameOf(MatrixType type);
MatrixType MatrixTypeOf(DType dtype);

struct ModelTypes {
  MatrixType weights = MatrixType::kF32;
  DType kv = DType::kF32;
};

// The shape of a step (one batch). Each of `num_sequences` sequences computes the tokens at
// positions [position, position + num_tokens).
struct StepShape {
  int64_t num_sequences = 1, num_tokens = 1, position = 0;
  bool has_logits = true;  // true: the step computes logits for the last token of each sequence
};

struct ModelWork {
  double operations = 0;  // number of arithmetic operations; a multiply-add counts as two
  double bytes = 0;       // number of bytes read from memory
};

inline ModelWork& operator+=(ModelWork& sum, const ModelWork& work) {
  sum.operations += work.operations;
  sum.bytes += work.bytes;
  return sum;
}

// The work of each operation of a step (such as attention), indexed by StepOperation.
using OperationWork = std::array<ModelWork, kNumStepOperations>;

// Returns the minimum work of a step: the products with all weight matrices, and the attention of
// each token to all positions that the token attends to. Each weight matrix, and the keys and
// values of each sequence, are read from memory once. Norms, activations and sampling are small and
// not counted.
OperationWork WorkOf(const ModelConfig& config, const ModelTypes& types, const StepShape& step);

ModelWork SumOf(const OperationWork& work);

// Returns the minimum time in which a machine with the rates `rates` does `work`, in seconds: the
// maximum of the arithmetic time and the memory time. The arithmetic time uses the rate of the type
// `weights`, or the rate of f32 if that rate is higher, because weights can be widened to f32.
double LeastSeconds(const ModelWork& work, MatrixType weights, const MachineRates& rates);

}  // namespace incipit
