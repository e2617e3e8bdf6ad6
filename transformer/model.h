// A loaded model folder: the configuration, and the weights on a backend.
#pragma once

#include <filesystem>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "transformer/checkpoint.h"
#include "transformer/config.h"
#include "transformer/weights.h"

namespace incipit {

// Immutable after loading. The backend must outlive the model. Weights may be views of mapped
// files, so `checkpoint` is declared before `weights` and destroyed after them.
struct Model {
  ModelConfig config;
  Checkpoint checkpoint;
  ModelWeights weights;
};

// Reads config.json, generation_config.json and the weights of `folder`. The backend packs the
// weights in `format`. Returns RESOURCE_EXHAUSTED, with the number of missing bytes, if there is
// not enough memory.
absl::StatusOr<Model> LoadModel(const std::filesystem::path& folder, Backend& backend,
                                WeightFormat format = WeightFormat::kAsStored);

}  // namespace incipit
