// Lists the tensors that a configuration requires, with their shapes and with their names in
// Hugging Face checkpoints of the supported families.
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

// Returns the name of a tensor in a layer: "model.layers.<layer>." followed by `part`.
std::string LayerTensorName(int32_t layer, std::string_view part);

struct ExpectedTensor {
  std::string name;
  std::vector<int64_t> shape;
};

// Returns the names and shapes of all tensors of a model, except the embedding and the head.
std::vector<ExpectedTensor> ExpectedTensors(const ModelConfig& config);

// The names of the tensors for the embedding and the head. If the head is tied to the embedding,
// the checkpoint may contain only one of the tensors, and both names are equal. If a checkpoint
// contains both tensors, the head uses its own tensor.
struct EndNames {
  std::string_view embedding = kEmbeddingName, head = kHeadName;
};
EndNames NamesOfEnds(const ModelConfig& config, const StoredTensors& tensors);

// Returns INVALID_ARGUMENT if tensors are missing, unknown to the model, or of a wrong shape or
// dtype; the message names the tensors. Returns UNIMPLEMENTED for a dtype that no supported model
// has.
absl::Status CheckTensors(const ModelConfig& config, const StoredTensors& tensors);

}  // namespace incipit
