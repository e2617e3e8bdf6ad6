#include "cli/bench_model_limits.h"

#include <algorithm>

namespace incipit {
namespace {

double BytesOf(MatrixType type) {
  if (type == MatrixType::kF32) return 4;
  return type == MatrixType::kInt8 ? 1 : 2;
}

// Of the matrices of one layer.
double LayerElements(const ModelConfig& config) {
  const double hidden = config.hidden_size, head_dim = config.head_dim;
  const double query = config.num_heads * head_dim, key = config.num_kv_heads * head_dim;
  return hidden * (query + 2 * key) + query * hidden + 3 * hidden * config.intermediate_size;
}

// Positions that `num_tokens` tokens from `first` on see, added up: each those up to its own, of
// which a window leaves the last ones.
double PositionsSeen(int64_t first, int64_t num_tokens, int32_t window) {
  double sum = 0;
  for (int64_t position = first; position < first + num_tokens; ++position) {
    sum += static_cast<double>(window > 0 ? std::min<int64_t>(position + 1, window) : position + 1);
  }
  return sum;
}

// Positions that at least one of the tokens sees.
double PositionsRead(int64_t first, int64_t num_tokens, int32_t window) {
  const int64_t end = first + num_tokens;
  return static_cast<double>(window > 0 ? std::min(end, num_tokens - 1 + window) : end);
}

double RateOf(MatrixType type, const MachineRates& rates) {
  double native = 0;
  if (type == MatrixType::kBF16) native = rates.bf16;
  if (type == MatrixType::kInt8) native = rates.int8;
  return native > 0 ? native : rates.f32;
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

ModelWork WorkOf(const ModelConfig& config, const ModelTypes& types, const StepShape& step) {
  const auto num_sequences = static_cast<double>(step.num_sequences);
  const double layers = config.num_layers * LayerElements(config);
  const double head = step.has_logits ? double{1} * config.vocab_size * config.hidden_size : 0;
  double seen = 0, read = 0;  // positions of all layers
  for (const int32_t window : config.layer_windows) {
    seen += PositionsSeen(step.position, step.num_tokens, window);
    read += PositionsRead(step.position, step.num_tokens, window);
  }
  const double query_size = double{1} * config.num_heads * config.head_dim;
  const double key_bytes =
      static_cast<double>(ByteSize(types.kv)) * config.num_kv_heads * config.head_dim;
  const double num_tokens = num_sequences * static_cast<double>(step.num_tokens);
  return {.operations = 2 * num_tokens * layers + 2 * num_sequences * head +
                        4 * num_sequences * seen * query_size,  // of queries and keys, and values
          .bytes = (layers + head) * BytesOf(types.weights) + num_sequences * read * 2 * key_bytes};
}

double LeastSeconds(const ModelWork& work, MatrixType weights, const MachineRates& rates) {
  return std::max(work.operations / RateOf(weights, rates), work.bytes / rates.read_bytes);
}

}  // namespace incipit
