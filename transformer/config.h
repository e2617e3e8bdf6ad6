// A model's shape, read from a Hugging Face folder and checked once; inside, it holds no bad value.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/types.h"
#include "kernels/tensor.h"

namespace incipit {

// Bounds of what a configuration may say, far above any model of these families, so that every
// product of three of them fits 64 bits.
inline constexpr int32_t kHiddenSizeMax = 1 << 17;
inline constexpr int32_t kIntermediateSizeMax = 1 << 20;
inline constexpr int32_t kLayersMax = 1 << 10;
inline constexpr int32_t kHeadsMax = 1 << 10;
inline constexpr int32_t kHeadDimMax = 1 << 10;
inline constexpr int32_t kVocabSizeMax = 1 << 22;
inline constexpr int32_t kPositionsMax = 1 << 27;
inline constexpr int32_t kEosIdsMax = 1 << 10;

enum class RopeType : uint8_t { kDefault, kLinear, kLlama3, kYarn };

struct RopeConfig {
  RopeType type = RopeType::kDefault;
  double theta = 10000;
  double factor = 1;
  int32_t original_max_positions = 0;
  double low_freq_factor = 1, high_freq_factor = 4;                // llama3
  double beta_fast = 32, beta_slow = 1;                            // yarn
  std::optional<double> attention_factor, mscale, mscale_all_dim;  // yarn
  bool truncate = true;                                            // yarn
};

struct ModelConfig {
  std::string architecture;  // as config.json names it
  int32_t hidden_size = 0, intermediate_size = 0, num_layers = 0;
  int32_t num_heads = 0, num_kv_heads = 0, head_dim = 0;
  int32_t vocab_size = 0, max_positions = 0;
  float rms_norm_epsilon = 0;
  bool tied_embeddings = false;  // the head is the embedding, unless the weights hold another
  bool tying_is_given = false;   // config.json says so; else a head that is absent means tied
  bool qkv_bias = false, output_bias = false, mlp_bias = false, qk_norm = false;
  RopeConfig rope;
  std::vector<int32_t> layer_windows;  // [num_layers]; 0: full attention
  std::optional<DType> dtype;          // what config.json says; the weights decide
  std::vector<TokenId> eos_ids;        // of generation_config.json and config.json, ascending
};

// Defaults of generation_config.json for requests that set nothing.
struct GenerationDefaults {
  std::optional<float> temperature, top_p, repetition_penalty;
  std::optional<int32_t> top_k;
  bool do_sample = true;
};

// Of the text of config.json and, where present (else empty), generation_config.json.
// INVALID_ARGUMENT naming key, value and bound; UNIMPLEMENTED naming an architecture or option that
// is not supported.
absl::StatusOr<ModelConfig> ParseModelConfig(std::string_view config_json,
                                             std::string_view generation_config_json);
absl::StatusOr<ModelConfig> ReadModelConfig(const std::filesystem::path& folder);
absl::StatusOr<GenerationDefaults> ReadGenerationDefaults(const std::filesystem::path& folder);

}  // namespace incipit
