#include "kernels/checks.h"

#include <bit>

#include "base/check.h"
#include "base/status.h"

namespace incipit {

absl::Status CheckKvPoolShape(const KvPoolShape& shape) {
  const auto size = static_cast<uint32_t>(shape.block_size);
  if (shape.block_size < 1 || shape.block_size > kBlockSizeMax || !std::has_single_bit(size)) {
    return InvalidArgument("block size is {}; it must be a power of two from 1 to {}",
                           shape.block_size, kBlockSizeMax);
  }
  if (shape.num_layers < 1 || shape.num_blocks < 1 || shape.num_kv_heads < 1 ||
      shape.head_dim < 1) {
    return InvalidArgument(
        "a KV pool of {} layers, {} blocks, {} heads of {} elements; each must be at least 1",
        shape.num_layers, shape.num_blocks, shape.num_kv_heads, shape.head_dim);
  }
  if (shape.dtype == DType::kF16) {
    return InvalidArgument("keys and values as f16 are not supported; use f32 or bf16");
  }
  return absl::OkStatus();
}

absl::Status CheckWeightParts(std::span<const ConstTensorView> parts, const Shard& shard) {
  if (parts.empty()) return InvalidArgument("a weight needs at least one matrix");
  if (shard.count != 1 || shard.index != 0) {
    return Unimplemented("shard {} of {}: this backend holds whole matrices only", shard.index,
                         shard.count);
  }
  for (const ConstTensorView& part : parts) {
    if (part.data == nullptr || part.rows < 1 || part.cols < 1) {
      return InvalidArgument("a weight of {} x {} elements is empty", part.rows, part.cols);
    }
    if (part.cols != parts.front().cols) {
      return InvalidArgument("weights multiplied together have {} and {} columns",
                             parts.front().cols, part.cols);
    }
  }
  return absl::OkStatus();
}

void CheckStepInputs(const StepInputs& inputs) {
  INCIPIT_CHECK(inputs.positions.size() == inputs.tokens.size());
  INCIPIT_CHECK(!inputs.token_begin.empty() && inputs.token_begin.front() == 0);
  INCIPIT_CHECK(inputs.token_begin.back() == std::ssize(inputs.tokens));
  INCIPIT_CHECK(inputs.block_begin.size() == inputs.token_begin.size());
  INCIPIT_CHECK(inputs.block_begin.back() <= std::ssize(inputs.blocks));
  for (const int32_t row : inputs.logits_rows) {
    INCIPIT_CHECK(row >= 0 && row < std::ssize(inputs.tokens));
  }
}

void CheckPoolCovers(const StepInputs& inputs, const KvPoolShape& shape) {
  for (size_t s = 0; s + 1 < inputs.token_begin.size(); ++s) {
    const int32_t begin = inputs.token_begin[s], end = inputs.token_begin[s + 1];
    if (begin == end) continue;
    const int32_t first = inputs.positions[begin], last = inputs.positions[end - 1];
    INCIPIT_CHECK(first >= 0 && last - first == end - begin - 1);
    const int32_t num_blocks = inputs.block_begin[s + 1] - inputs.block_begin[s];
    INCIPIT_CHECK(last / shape.block_size < num_blocks);
  }
}

void CheckActivation(const TensorView& view, int64_t rows, int64_t cols, DType dtype) {
  INCIPIT_CHECK(view.dtype == dtype && view.rows == rows && view.cols == cols);
  INCIPIT_CHECK(view.data != nullptr || rows * cols == 0);
}

}  // namespace incipit
