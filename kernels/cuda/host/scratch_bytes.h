// Sizes of the scratch memory that a step (batch) needs for matrix products and attention.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/backend.h"
#include "kernels/cuda/host/attention_plan.h"

namespace incipit::cuda {

// Maximum sizes in bytes of the scratch memory for the attention of a step (batch).
struct AttentionScratch {
  size_t sums = 0, stats = 0, arrivals = 0, tiles = 0;
};
AttentionScratch ScratchOfAttention(const AttentionPlan& plan, const KvPoolShape& pool,
                                    int32_t num_sms);

// Sizes in bytes of the scratch memory for the matrix products of a step (batch).
struct ProductScratch {
  size_t x = 0, squares = 0, padded = 0, qkv = 0;
};
ProductScratch ScratchOfProducts(const ModelShape& model, int64_t rows);

// Returns the size in bytes of the normalised hidden state of `rows` tokens, as bf16.
size_t NormalizedBytes(int64_t rows, int64_t hidden_size);

// Returns the maximum size in bytes of the sums of squares of `rows` rows of the hidden state.
size_t SquaresBytes(int64_t rows, int64_t hidden_size);

// Returns the size in bytes of an array with one number of 4 bytes for every 16 logits of each row.
size_t BestOfUnitsBytes(int64_t rows, int64_t vocab_size);

// Returns the size in bytes of a padded copy of a bf16 matrix, in which each row is aligned to 16
// bytes. Returns 0 if the matrix needs no copy.
size_t PaddedBytes(int64_t rows, int64_t columns);

}  // namespace incipit::cuda
