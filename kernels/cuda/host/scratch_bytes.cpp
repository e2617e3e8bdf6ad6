#include "kernels/cuda/host/scratch_bytes.h"

#include <algorithm>

#include "kernels/cuda/host/attention_kernels.h"
#include "kernels/cuda/host/launch_product.h"

namespace incipit::cuda {
AttentionScratch ScratchOfAttention(const AttentionPlan& plan, const KvPoolShape& pool,
                                    int32_t num_sms) {
  const auto heads = static_cast<size_t>(pool.num_kv_heads);
  const size_t partial_rows = static_cast<size_t>(plan.max_partial_rows()) * heads;
  return {.sums = partial_rows * static_cast<size_t>(pool.head_dim) * sizeof(float),
          .stats = partial_rows * 2 * sizeof(float),
          .arrivals = static_cast<size_t>(plan.max_decode_tiles()) * heads * sizeof(uint32_t),
          .tiles = AttentionScratchBytes(pool, num_sms)};
}

size_t PaddedBytes(int64_t rows, int64_t columns) {
  if (columns % 8 == 0) return 0;
  return static_cast<size_t>(rows * ((columns + 7) / 8 * 8)) * sizeof(dev::bf16);
}

size_t NormalizedBytes(int64_t rows, int64_t hidden_size) {
  return static_cast<size_t>(rows * hidden_size) * sizeof(dev::bf16);
}

size_t SquaresBytes(int64_t rows, int64_t hidden_size) {
  const int64_t in_parts = std::min(rows, kSkinnyRowsMax) * NumUnits(RowOrder::kPlain, hidden_size);
  return static_cast<size_t>(std::max(rows, in_parts)) * sizeof(float);
}

size_t BestOfUnitsBytes(int64_t rows, int64_t vocab_size) {
  return static_cast<size_t>(rows * NumUnits(RowOrder::kPlain, vocab_size)) * sizeof(float);
}

ProductScratch ScratchOfProducts(const ModelShape& model, int64_t rows) {
  const int64_t query = int64_t{model.num_heads} * model.head_dim;
  const int64_t qkv = query + int64_t{2} * model.num_kv_heads * model.head_dim;
  return {.x = NormalizedBytes(rows, model.hidden_size),
          .squares = SquaresBytes(rows, model.hidden_size),
          .padded = std::max(PaddedBytes(rows, query), PaddedBytes(rows, model.intermediate_size)),
          .qkv = static_cast<size_t>(rows * qkv) * sizeof(float)};
}

}  // namespace incipit::cuda
