// How much memory of their own the operations of a step ask for.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/backend.h"
#include "kernels/cuda/host/attention_plan.h"

namespace incipit::cuda {

// Of attention over one pool; the same for every step that the plan can hold.
struct AttentionScratch {
  size_t sums = 0, stats = 0, arrivals = 0, tiles = 0;
};
AttentionScratch ScratchOfAttention(const AttentionPlan& plan, const KvPoolShape& pool,
                                    int32_t num_sms);

// Of the products in a step of `rows` rows.
struct ProductScratch {
  size_t x = 0, squares = 0, padded = 0, qkv = 0;
};
ProductScratch ScratchOfProducts(const ModelShape& model, int64_t rows);

// Of what a product takes of hidden: x, and the sums of its squares, of a few rows in parts.
size_t NormalizedBytes(int64_t rows, int64_t hidden_size);
size_t SquaresBytes(int64_t rows, int64_t hidden_size);

// Of the greatest logit of each unit of a row, or of its token.
size_t BestOfUnitsBytes(int64_t rows, int64_t vocab_size);

// Of activations whose rows do not begin at 16 bytes: a copy of them that do; 0 if all do.
size_t PaddedBytes(int64_t rows, int64_t columns);

}  // namespace incipit::cuda
