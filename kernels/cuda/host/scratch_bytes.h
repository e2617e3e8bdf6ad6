// Computes the sizes of the scratch memory for a step (products and attention).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/backend.h"
#include "kernels/cuda/host/attention_plan.h"

namespace incipit::cuda {

// Sizes in bytes of the scratch memory of attention. The sizes are sufficient for every step for
// which AttentionPlan::Build can build a plan.
struct AttentionScratch {
  size_t sums = 0, stats = 0, arrivals = 0, tiles = 0;
};
AttentionScratch ScratchOfAttention(const AttentionPlan& plan, const KvPoolShape& pool,
                                    int32_t num_sms);

// Sizes in bytes of the scratch memory for the matrix products of a step of `rows` rows.
struct ProductScratch {
  size_t x = 0, squares = 0, padded = 0, qkv = 0;
};
ProductScratch ScratchOfProducts(const ModelShape& model, int64_t rows);

// Returns the size in bytes of the normalised hidden state, which is the bf16 input of a product,
// for `rows` rows.
size_t NormalizedBytes(int64_t rows, int64_t hidden_size);

// Returns the size in bytes of the sums of squares of `rows` rows of the hidden state. With few
// rows, there is one sum for every 16 columns of each row, otherwise one sum for each row.
size_t SquaresBytes(int64_t rows, int64_t hidden_size);

// Returns the size in bytes of an array with one f32 number (or one token id) for every 16 logits
// of each row.
size_t BestOfUnitsBytes(int64_t rows, int64_t vocab_size);

// Returns the size in bytes of the padded copy of an input matrix, in which each row begins at a
// multiple of 16 bytes. Returns 0 if the matrix needs no copy.
size_t PaddedBytes(int64_t rows, int64_t columns);

}  // namespace incipit::cuda
