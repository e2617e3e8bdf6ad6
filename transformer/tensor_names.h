// The tensors that a configuration requires, with the names and shapes that Hugging Face
// checkpoints of the supported families use.
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

// Returns "model.layers.<layer>." followed by `part`.
std::string LayerTensorName(int32_t layer, std::string_view part);

struct ExpectedTensor {
  std::string name;
  std::vector<int64_t> shape;
};

// Returns the names and shapes of all tensors of the model except the embedding and the head.
std::vector<ExpectedTensor> ExpectedTensors(const ModelConfig& config);

// The names of the tensors for the embedding and the head. A tied model may contain either tensor
// or both. If a tied model contains both tensors, the head is a tensor of its own.
struct EndNames {
  std::string_view embedding = kEmbeddingName, head = kHeadName;
};
EndNames NamesOfEnds(const ModelConfig& config, const StoredTensors& tensors);

// Returns INVALID_ARGUMENT, with the names of the tensors, if tensors are missing, unknown to the
// model, or of a wrong shape or dtype. Returns UNIMPLEMENTED for a dtype that no supported model
// has.
absl::Status CheckTensors(const ModelConfig& config, const StoredTensors& tensors);

}  // namespace incipit
