// Checks that every backend makes on its arguments. A shape that does not match aborts the program.
// An error that a file or a flag can cause is returned as a status.
#pragma once

#include <span>

#include "absl/status/status.h"
#include "kernels/backend.h"

namespace incipit {

// Returns INVALID_ARGUMENT with the field and its value if a field of `shape` is out of range.
absl::Status CheckKvPoolShape(const KvPoolShape& shape);

// Returns an error if `parts` or one of the parts is empty, or if the parts have different numbers
// of columns. Also returns an error if `shard` is not the whole matrix.
absl::Status CheckWeightParts(std::span<const ConstTensorView> parts, const Shard& shard);

// Aborts if the arrays of `step` have inconsistent sizes, or if a row of `logits` is not a token
// row of `step`.
void CheckStep(const Step& step, const StepLogits& logits);
// Aborts if the positions of a sequence are not consecutive, or if a position has no block in the
// block table.
void CheckPoolCovers(const Step& step, const KvPoolShape& shape);

void CheckLogits(const TensorView& logits);
// Aborts if the arrays have different sizes, or if a row or a token is outside the logits.
void CheckSampleArgs(const SampleArgs& args);
void CheckScoreArgs(const ScoreArgs& args);

void CheckActivation(const TensorView& view, int64_t rows, int64_t cols, DType dtype = DType::kF32);

}  // namespace incipit
