#include "cli/bench/bench_model_limits.h"

#include <algorithm>

namespace incipit {
namespace {

double BytesOf(MatrixType type) {
  if (type == MatrixType::kF32) return 4;
  return type == MatrixType::kInt8 ? 1 : 2;
}

// Returns the number of pairs (token, position) in which the token attends to the position. The
// tokens are those at the positions [first, first + num_tokens). If `window` is above 0, a token
// attends only to the last `window` positions.
double PositionsSeen(int64_t first, int64_t num_tokens, int32_t window) {
  double sum = 0;
  for (int64_t position = first; position < first + num_tokens; ++position) {
    sum += static_cast<double>(window > 0 ? std::min<int64_t>(position + 1, window) : position + 1);
  }
  return sum;
}

// Returns the number of positions to which at least one token at the positions [first, first +
// num_tokens) attends. If `window` is above 0, a token attends only to the last `window` positions.
double PositionsRead(int64_t first, int64_t num_tokens, int32_t window) {
  const int64_t end = first + num_tokens;
  return static_cast<double>(window > 0 ? std::min(end, num_tokens - 1 + window) : end);
}

// Returns the maximum rate of matrix products with weights of `type`, in operations per second. The
// rate is at least the f32 rate, because a backend can convert the weights to f32.
double RateOf(MatrixType type, const MachineRates& rates) {
  double native = 0;
  if (type == MatrixType::kBF16) native = rates.bf16;
  if (type == MatrixType::kInt8) native = rates.int8;
  return std::max(native, rates.f32);
}

}  // namespace

std::string_view NameOf(MatrixType type) {
  switch (type) {
    case MatrixType::kF32:
      return "f32";
    case MatrixType::kF16:
      return "f16";
    case MatrixType::kBF16:
      return "bf16";
    case MatrixType::kInt8:
      return "int8";
  }
  return "";
}

MatrixType MatrixTypeOf(DType dtype) {
  if (dtype == DType::kF32) return MatrixType::kF32;
  return dtype == DType::kF16 ? MatrixType::kF16 : MatrixType::kBF16;
}

OperationWork WorkOf(const ModelConfig& config, const ModelTypes& types, const BenchStep& step) {
  const auto num_sequences = static_cast<double>(step.num_sequences);
  const double num_tokens = num_sequences * static_cast<double>(step.num_tokens);
  const double hidden = config.hidden_size, intermediate = config.intermediate_size;
  const double query = double{1} * config.num_heads * config.head_dim;
  const double key = double{1} * config.num_kv_heads * config.head_dim;
  OperationWork work{};
  const auto add = [&](StepOperation operation, double elements, double rows) {
    work[static_cast<size_t>(operation)] +=
        {.operations = 2 * rows * elements, .bytes = elements * BytesOf(types.weights)};
  };
  const double layers = config.num_layers;
  add(StepOperation::kQkv, layers * hidden * (query + 2 * key), num_tokens);
  add(StepOperation::kOutput, layers * query * hidden, num_tokens);
  add(StepOperation::kGateUp, layers * hidden * 2 * intermediate, num_tokens);
  add(StepOperation::kDown, layers * intermediate * hidden, num_tokens);
  if (step.has_logits) add(StepOperation::kLogits, hidden * config.vocab_size, num_sequences);
  // `seen`: number of pairs (token, position) in which a token of the step attends to the position.
  // `read`: number of positions whose keys and values are read. Both are sums over all layers, for
  // one sequence.
  double seen = 0, read = 0;
  for (const int32_t window : config.layer_windows) {
    seen += PositionsSeen(step.position, step.num_tokens, window);
    read += PositionsRead(step.position, step.num_tokens, window);
  }
  work[static_cast<size_t>(StepOperation::kAttention)] = {
      // For each pair (token, position), each element of the query needs two multiply-adds: one
      // with a key, and one with a value. A multiply-add counts as two operations, so the factor is
      // 4.
      .operations = 4 * num_sequences * seen * query,
      .bytes = num_sequences * read * 2 * key * static_cast<double>(ByteSize(types.kv))};
  return work;
}

ModelWork SumOf(const OperationWork& work) {
  ModelWork sum;
  for (const ModelWork& one : work) sum += one;
  return sum;
}

double LeastSeconds(const ModelWork& work, MatrixType weights, const MachineRates& rates) {
  return std::max(work.operations / RateOf(weights, rates), work.bytes / rates.read_bytes);
}

}  // namespace incipit
