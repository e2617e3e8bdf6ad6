// Computes the sizes of the scratch memory that the operations of a step need.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/backend.h"
#include "kernels/cuda/host/attention_plan.h"

namespace incipit::cuda {

// Sizes in bytes of the scratch memory of attention over one pool. The sizes are the same for every
// step that the plan can hold.
struct AttentionScratch {
  size_t sums = 0, stats = 0, arrivals = 0, tiles = 0;
};
AttentionScratch ScratchOfAttention(const AttentionPlan& plan, const KvPoolShape& pool,
                                    int32_t num_sms);

// Sizes in bytes of the scratch memory for the products in a step of `rows` rows.
struct ProductScratch {
  size_t x = 0, squares = 0, padded = 0, qkv = 0;
};
ProductScratch ScratchOfProducts(const ModelShape& model, int64_t rows);

// Returns the size in bytes of x, the bf16 input of a product that is computed from `rows` rows of
// the hidden state.
size_t NormalizedBytes(int64_t rows, int64_t hidden_size);

// Returns the size in bytes of the sums of squares of `rows` rows of the hidden state. For few
// rows, the size includes one sum for every 16 columns.
size_t SquaresBytes(int64_t rows, int64_t hidden_size);

// Returns the size in bytes of the array with the largest logit of every 16 tokens of each row. The
// array with the token ids of these logits has the same size.
size_t BestOfUnitsBytes(int64_t rows, int64_t vocab_size);

// Returns the size in bytes of a copy of activations in which each row begins at a multiple of 16
// bytes, or 0 if the activations need no copy.
size_t PaddedBytes(int64_t rows, int64_t columns);

}  // namespace incipit::cuda
