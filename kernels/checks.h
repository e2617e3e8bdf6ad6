// What every backend asks of its caller before it computes. Shapes that do not match abort; what a
// file or a flag can cause is a Status.
#pragma once

#include <span>

#include "absl/status/status.h"
#include "kernels/backend.h"

namespace incipit {

inline constexpr int32_t kBlockSizeMax = 256;

// INVALID_ARGUMENT naming the field that is out of range.
absl::Status CheckKvPoolShape(const KvPoolShape& shape);

// The parts are not empty, have equal numbers of columns, and the matrix is whole.
absl::Status CheckWeightParts(std::span<const ConstTensorView> parts, const Shard& shard);

// The arrays belong together; positions are consecutive, and each has a block in the table.
void CheckStepInputs(const StepInputs& inputs);
void CheckPoolCovers(const StepInputs& inputs, const KvPoolShape& shape);

void CheckActivation(const TensorView& view, int64_t rows, int64_t cols, DType dtype = DType::kF32);

}  // namespace incipit
