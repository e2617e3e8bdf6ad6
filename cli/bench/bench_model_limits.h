// Computes the minimum work of a step (batch) of a model: arithmetic operations, and bytes read
// from memory. Also computes the minimum time that a machine needs for this work.
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

// The size of a step (one batch): `num_sequences` sequences, each of which computes the tokens at
// positions [position, position + num_tokens).
struct BenchStep {
  int64_t num_sequences = 1, num_tokens = 1, position = 0;
  bool has_logits = true;  // true: the step computes logits for the last token of each sequence
};

struct ModelWork {
  double operations = 0;  // number of arithmetic operations; a multiply-add is two operations
  double bytes = 0;       // number of bytes read from memory
};

inline ModelWork& operator+=(ModelWork& sum, const ModelWork& work) {
  sum.operations += work.operations;
  sum.bytes += work.bytes;
  return sum;
}

// Element i is the work (arithmetic operations and bytes read) of the operation StepOperation(i),
// such as attention, in one step (batch).
using OperationWork = std::array<ModelWork, kNumStepOperations>;

// Returns the minimum work of each operation of a step. Each weight matrix is read from memory
// once, and so are the keys and values of each sequence. Small operations such as norms,
// activations and sampling are not counted.
OperationWork WorkOf(const ModelConfig& config, const ModelTypes& types, const BenchStep& step);

ModelWork SumOf(const OperationWork& work);

// Returns the minimum time, in seconds, that a machine with the rates `rates` needs for `work`: the
// time for the arithmetic operations or the time for reading the bytes, whichever is longer.
// `weights` is the type of the weights.
double LeastSeconds(const ModelWork& work, MatrixType weights, const MachineRates& rates);

}  // namespace incipit
