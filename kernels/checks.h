// What every backend asks of its caller before it computes. Shapes that do not match abort; what a
// file or a flag can cause is a Status.
#pragma once

#include <span>

#include "absl/status/status.h"
#include "kernels/backend.h"

namespace incipit {

// INVALID_ARGUMENT naming the field that is out of range.
absl::Status CheckKvPoolShape(const KvPoolShape& shape);

// The parts are not empty, have equal numbers of columns, and the matrix is whole.
absl::Status CheckWeightParts(std::span<const ConstTensorView> parts, const Shard& shard);

// The arrays of tokens and blocks belong together, and rows of logits are rows of the step.
void CheckStep(const Step& step, const StepLogits& logits);
// The positions of a sequence are consecutive, and each has a block in the table.
void CheckPoolCovers(const Step& step, const KvPoolShape& shape);

void CheckLogits(const TensorView& logits);
// The arrays belong together, and rows and targets are within the logits.
void CheckSampleArgs(const SampleArgs& args);
void CheckScoreArgs(const ScoreArgs& args);

void CheckActivation(const TensorView& view, int64_t rows, int64_t cols, DType dtype = DType::kF32);

}  // namespace incipit
