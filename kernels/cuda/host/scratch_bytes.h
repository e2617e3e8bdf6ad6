// Computes the scratch memory that the operations of a step need.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/backend.h"
#include "kernels/cuda/host/attention_plan.h"

namespace incipit::cuda {

// Scratch bytes of attention over one pool; the same for every step that the plan can hold.
struct AttentionScratch {
  size_t sums = 0, stats = 0, arrivals = 0, tiles = 0;
};
AttentionScratch ScratchOfAttention(const AttentionPlan& plan, const KvPoolShape& pool,
                                    int32_t num_sms);

// Scratch bytes of the products in a step of `rows` rows.
struct ProductScratch {
  size_t x = 0, squares = 0, padded = 0, qkv = 0;
};
ProductScratch ScratchOfProducts(const ModelShape& model, int64_t rows);

// Size in bytes of a product's inputs that are computed from hidden: x, and the sums of squares of
// its rows (for few rows, in parts).
size_t NormalizedBytes(int64_t rows, int64_t hidden_size);
size_t SquaresBytes(int64_t rows, int64_t hidden_size);

// Size in bytes of the largest logits of all units of each row, or of their tokens.
size_t BestOfUnitsBytes(int64_t rows, int64_t vocab_size);

// Size in bytes of a copy of activations whose rows begin at multiples of 16 bytes; 0 if the
// activations need no copy.
size_t PaddedBytes(int64_t rows, int64_t columns);

}  // namespace incipit::cuda
