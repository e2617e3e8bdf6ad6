// Loads a model folder: the configuration, and the weights on a backend.
#pragma once

#include <filesystem>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "transformer/checkpoint.h"
#include "transformer/config.h"
#include "transformer/weights.h"

namespace incipit {

// A loaded model, which is immutable. The backend must outlive the model. `checkpoint` is declared
// before `weights` and destroyed after `weights`, because weights may be views of files that
// `checkpoint` maps.
struct Model {
  ModelConfig config;
  Checkpoint checkpoint;
  ModelWeights weights;
};

// Reads config.json, generation_config.json and the weights of `folder`. The backend packs the
// weights in the format `format`. Returns RESOURCE_EXHAUSTED if there is not enough memory; the
// message contains the number of missing bytes.
absl::StatusOr<Model> LoadModel(const std::filesystem::path& folder, Backend& backend,
                                WeightFormat format = WeightFormat::kAsStored);

}  // namespace incipit
