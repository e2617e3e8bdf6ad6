// Which tensors a configuration asks for, by the names and shapes that Hugging Face checkpoints of
// these families give them.
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

// "model.layers.3." + part
std::string LayerTensorName(int32_t layer, std::string_view part);

struct ExpectedTensor {
  std::string name;
  std::vector<int64_t> shape;
};

// Every tensor of the model but the embedding and the head.
std::vector<ExpectedTensor> ExpectedTensors(const ModelConfig& config);

// The names that serve as embedding and head: a tied model may hold either tensor or both, and
// where it holds both, the head is its own.
struct EndNames {
  std::string_view embedding = kEmbeddingName, head = kHeadName;
};
EndNames NamesOfEnds(const ModelConfig& config, const StoredTensors& tensors);

// INVALID_ARGUMENT, naming them, for tensors that are missing, that no part of the model reads, or
// that have another shape or dtype than they must; UNIMPLEMENTED for dtypes that no model here has.
absl::Status CheckTensors(const ModelConfig& config, const StoredTensors& tensors);

}  // namespace incipit
