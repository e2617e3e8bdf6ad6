// Loads a model from a folder: reads the configuration and copies the weights to a backend.
#pragma once

#include <filesystem>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "transformer/checkpoint.h"
#include "transformer/config.h"
#include "transformer/weights.h"

namespace incipit {

// A loaded model, which never changes. REQUIRES: the backend outlives the model. Weights may point
// into the files that `checkpoint` maps, so `checkpoint` is declared before `weights` and destroyed
// after them.
struct Model {
  ModelConfig config;
  Checkpoint checkpoint;
  ModelWeights weights;
};

// Loads the configuration and the weights from `folder`. The backend stores the weights in the
// format `format`. `pages` applies to the tensors of `Model::checkpoint`. Returns
// RESOURCE_EXHAUSTED if the memory is too small. The error message contains the number of missing
// bytes.
absl::StatusOr<Model> LoadModel(const std::filesystem::path& folder, Backend& backend,
                                WeightFormat format = WeightFormat::kAsStored,
                                TensorPages pages = TensorPages::kReleased);

}  // namespace incipit
