#include "kernels/checks.h"

#include <bit>

#include "base/check.h"
#include "base/status.h"
#include "kernels/sampling_math.h"

namespace incipit {
namespace {

void CheckRows(std::span<const int32_t> rows, int64_t num_rows) {
  for (const int32_t row : rows) INCIPIT_CHECK(row >= 0 && row < num_rows);
}

}  // namespace

absl::Status CheckKvPoolShape(const KvPoolShape& shape) {
  const auto size = static_cast<uint32_t>(shape.block_size);
  if (shape.block_size < 1 || shape.block_size > kBlockSizeMax || !std::has_single_bit(size)) {
    return InvalidArgument("the KV block size is {} tokens; it must be a power of two from 1 to {}",
                           shape.block_size, kBlockSizeMax);
  }
  if (shape.num_layers < 1 || shape.num_blocks < 1 || shape.num_kv_heads < 1 ||
      shape.head_dim < 1) {
    return InvalidArgument(
        "the KV pool has {} layers, {} blocks, {} KV heads and a head_dim of {}; each must be at "
        "least 1",
        shape.num_layers, shape.num_blocks, shape.num_kv_heads, shape.head_dim);
  }
  if (shape.dtype == DType::kF16) {
    return InvalidArgument("the KV cache type f16 is not supported; use f32 or bf16");
  }
  return absl::OkStatus();
}

absl::Status CheckWeightParts(std::span<const ConstTensorView> parts, const Shard& shard) {
  if (parts.empty()) return InvalidArgument("the list of weight matrices to join is empty");
  if (shard.count != 1 || shard.index != 0) {
    return Unimplemented(
        "shard {} of {} of a weight matrix was requested; this backend supports only whole "
        "matrices",
        shard.index, shard.count);
  }
  for (const ConstTensorView& part : parts) {
    if (part.data == nullptr || part.rows < 1 || part.cols < 1) {
      return InvalidArgument("a weight matrix with {} rows and {} columns is empty or has no data",
                             part.rows, part.cols);
    }
    if (part.cols != parts.front().cols) {
      return InvalidArgument(
          "two weight matrices to join have {} and {} columns; the numbers must be equal",
          parts.front().cols, part.cols);
    }
  }
  return absl::OkStatus();
}

void CheckStep(const Step& step, const StepLogits& logits) {
  INCIPIT_CHECK(step.positions.size() == step.tokens.size());
  INCIPIT_CHECK(!step.token_begin.empty() && step.token_begin.front() == 0);
  INCIPIT_CHECK(step.token_begin.back() == std::ssize(step.tokens));
  INCIPIT_CHECK(step.block_begin.size() == step.token_begin.size());
  INCIPIT_CHECK(step.block_begin.back() <= std::ssize(step.blocks));
  CheckRows(logits.rows, std::ssize(step.tokens));
}

void CheckPoolCovers(const Step& step, const KvPoolShape& shape) {
  for (size_t s = 0; s + 1 < step.token_begin.size(); ++s) {
    const int32_t begin = step.token_begin[s], end = step.token_begin[s + 1];
    if (begin == end) continue;
    const int32_t first = step.positions[begin], last = step.positions[end - 1];
    INCIPIT_CHECK(first >= 0 && last - first == end - begin - 1);
    const int32_t num_blocks = step.block_begin[s + 1] - step.block_begin[s];
    INCIPIT_CHECK(last / shape.block_size < num_blocks);
  }
}

void CheckLogits(const TensorView& logits) {
  INCIPIT_CHECK(logits.dtype == DType::kF32 && logits.cols > 0);
  INCIPIT_CHECK(logits.cols <= int64_t{1} << kVocabBitsMax);
}

void CheckSampleArgs(const SampleArgs& args) {
  CheckLogits(args.logits);
  INCIPIT_CHECK(args.logits_rows.size() == args.samples.size());
  INCIPIT_CHECK(args.tokens.size() == args.samples.size());
  INCIPIT_CHECK(args.status.size() == args.samples.size());
  CheckRows(args.logits_rows, args.logits.rows);
}

void CheckScoreArgs(const ScoreArgs& args) {
  CheckLogits(args.logits);
  INCIPIT_CHECK(args.logits_rows.size() == args.scores.size());
  INCIPIT_CHECK(args.status.size() == args.scores.size());
  CheckRows(args.logits_rows, args.logits.rows);
  for (const StepScore& score : args.scores) {
    INCIPIT_CHECK(score.target >= 0 && score.target < args.logits.cols);
  }
}

void CheckActivation(const TensorView& view, int64_t rows, int64_t cols, DType dtype) {
  INCIPIT_CHECK(view.dtype == dtype && view.rows == rows && view.cols == cols);
  INCIPIT_CHECK(view.data != nullptr || rows * cols == 0);
}

}  // namespace incipit
