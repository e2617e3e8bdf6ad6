// A model folder, loaded: its configuration and its weights on a backend.
#pragma once

#include <filesystem>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "transformer/checkpoint.h"
#include "transformer/config.h"
#include "transformer/weights.h"

namespace incipit {

// Immutable after loading. The backend must outlive it. Weights may lie in the mapped files, so
// `checkpoint` stands before `weights` and is destroyed after them.
struct Model {
  ModelConfig config;
  Checkpoint checkpoint;
  ModelWeights weights;
};

// Reads config.json, generation_config.json and the weights of `folder`, which the backend packs in
// the format asked for. RESOURCE_EXHAUSTED: how many bytes are missing.
absl::StatusOr<Model> LoadModel(const std::filesystem::path& folder, Backend& backend,
                                WeightFormat format = WeightFormat::kAsStored);

}  // namespace incipit
