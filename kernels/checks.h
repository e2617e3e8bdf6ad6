// Declares the checks that every backend makes on its arguments. An argument with a wrong shape
// aborts the program. An error that a file or a flag can cause is returned as a status.
#pragma once

#include <span>

#include "absl/status/status.h"
#include "kernels/backend.h"

namespace incipit {

// Returns INVALID_ARGUMENT if a field of `shape` is out of range. The message contains the field
// and its value.
absl::Status CheckKvPoolShape(const KvPoolShape& shape);

// Returns an error if `parts` or one of its matrices is empty, or if the matrices have different
// numbers of columns. Also returns an error if `shard` selects only a part of the matrix.
absl::Status CheckWeightParts(std::span<const ConstTensorView> parts, const Shard& shard);

// Aborts if the arrays of `step` have inconsistent sizes, or if an element of `logits.rows` is not
// the index of a token of `step`.
void CheckStep(const Step& step, const StepLogits& logits);
// Aborts if the first and the last position of a sequence do not match its number of tokens, or if
// the block table has too few cache blocks for the last position.
void CheckPoolCovers(const Step& step, const KvPoolShape& shape);

void CheckLogits(const TensorView& logits);
// Aborts if the arrays of `args` have different sizes. Also aborts if the index of a row or of a
// token is outside of the logits matrix.
void CheckSampleArgs(const SampleArgs& args);
void CheckScoreArgs(const ScoreArgs& args);

void CheckActivation(const TensorView& view, int64_t rows, int64_t cols, DType dtype = DType::kF32);

}  // namespace incipit
