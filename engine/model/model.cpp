#include "engine/model/model.h"

#include <utility>

#include "base/status.h"

namespace incipit {

absl::StatusOr<Model> LoadModel(const std::filesystem::path& folder, Backend& backend,
                                WeightFormat format) {
  absl::StatusOr<ModelConfig> config = ReadModelConfig(folder);
  if (!config.ok()) return Annotate(config.status(), folder.string());
  INCIPIT_ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::Open(folder));
  absl::StatusOr<ModelWeights> weights = LoadWeights(*config, checkpoint, backend, format);
  if (!weights.ok()) return Annotate(weights.status(), folder.string());
  return Model{*std::move(config), std::move(checkpoint), *std::move(weights)};
}

}  // namespace incipit
