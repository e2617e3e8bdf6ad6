// What a step of a model has to do at least, and how long a machine needs for that at least.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "cli/bench/timed_backend.h"
#include "kernels/machine_rates.h"
#include "kernels/tensor.h"
#include "transformer/config.h"

namespace incipit {

// What the elements of a model's matrices are.
enum class MatrixType : uint8_t { kF32, kF16, kBF16, kInt8 };
std::string_view NameOf(MatrixType type);
MatrixType MatrixTypeOf(DType dtype);

struct ModelTypes {
  MatrixType weights = MatrixType::kF32;
  DType kv = DType::kF32;
};

// Each of `num_sequences` sequences computes `num_tokens` tokens, the first at `position`.
struct StepShape {
  int64_t num_sequences = 1, num_tokens = 1, position = 0;
  bool has_logits = true;  // of the last token of each sequence
};

struct ModelWork {
  double operations = 0;  // a multiply-add is two
  double bytes = 0;       // to be read from memory
};

inline ModelWork& operator+=(ModelWork& sum, const ModelWork& work) {
  sum.operations += work.operations;
  sum.bytes += work.bytes;
  return sum;
}

// Products with every matrix, and attention of each token over the positions that it sees. Each
// matrix is read once, and the keys and values of each sequence once. What is small beside that
// (norms, activations, sampling) is not counted.
using OperationWork = std::array<ModelWork, kNumStepOperations>;
OperationWork WorkOf(const ModelConfig& config, const ModelTypes& types, const StepShape& step);

ModelWork SumOf(const OperationWork& work);

// The longer of two times: of the operations at the rate of the weights' type (where there is no
// instruction for it, of f32, which they are widened to), and of the bytes.
double LeastSeconds(const ModelWork& work, MatrixType weights, const MachineRates& rates);

}  // namespace incipit
