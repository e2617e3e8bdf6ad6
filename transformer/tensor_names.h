// Lists the tensors that a model needs, with their shapes and their names in Hugging Face
// checkpoints.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "transformer/config.h"
#include "transformer/safetensors.h"

namespace incipit {

inline constexpr std::string_view kEmbeddingName = "model.embed_tokens.weight";
inline constexpr std::string_view kFinalNormName = "model.norm.weight";
inline constexpr std::string_view kHeadName = "lm_head.weight";

// Returns "model.layers.<layer>.<part>", the name of a tensor of layer `layer`.
std::string LayerTensorName(int32_t layer, std::string_view part);

struct ExpectedTensor {
  std::string name;
  std::vector<int64_t> shape;
};

// Returns the names and shapes of all tensors of a model, except the token embedding and the output
// head.
std::vector<ExpectedTensor> ExpectedTensors(const ModelConfig& config);

// Names of the tensors of the token embedding and of the output head. Both names are equal if the
// head uses the tensor of the embedding.
struct EndNames {
  std::string_view embedding = kEmbeddingName, head = kHeadName;
};
EndNames NamesOfEnds(const ModelConfig& config, const StoredTensors& tensors);

// Checks the tensors of a checkpoint. Returns INVALID_ARGUMENT if a tensor is missing or unknown,
// or has a wrong shape or dtype. Returns UNIMPLEMENTED for a dtype that no supported model has. The
// error message contains the names of the tensors.
absl::Status CheckTensors(const ModelConfig& config, const StoredTensors& tensors);

}  // namespace incipit
