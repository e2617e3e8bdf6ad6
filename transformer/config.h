// Declares the configuration of a model, which is read from a Hugging Face folder. All values are
// checked when they are read, so a ModelConfig holds no invalid value.
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

// Upper bounds of configuration values. The bounds are far above the values of all models of the
// supported families. The product of any three bounds fits in 64 bits.
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
  double low_freq_factor = 1, high_freq_factor = 4;                // used only if `type` is kLlama3
  double beta_fast = 32, beta_slow = 1;                            // used only if `type` is kYarn
  std::optional<double> attention_factor, mscale, mscale_all_dim;  // used only if `type` is kYarn
  bool truncate = true;                                            // used only if `type` is kYarn
};

struct ModelConfig {
  std::string architecture;  // name of the architecture in config.json
  int32_t hidden_size = 0, intermediate_size = 0, num_layers = 0;
  int32_t num_heads = 0, num_kv_heads = 0, head_dim = 0;
  int32_t vocab_size = 0, max_positions = 0;
  float rms_norm_epsilon = 0;
  // True: the head uses the tensor of the embedding, unless the weights contain a tensor for the
  // head.
  bool tied_embeddings = false;
  // True if config.json contains tie_word_embeddings. If false, the head uses the tensor of the
  // embedding if the weights contain no tensor for the head.
  bool tying_is_given = false;
  bool qkv_bias = false, output_bias = false, mlp_bias = false, qk_norm = false;
  RopeConfig rope;
  // Element i: the attention window of layer i, as a number of positions; 0: full attention.
  std::vector<int32_t> layer_windows;
  // Type of the weights in config.json; absent if config.json has no dtype. CheckTensors requires
  // that the stored weights have this type.
  std::optional<DType> dtype;
  // Ids of all end-of-sequence tokens, from generation_config.json and config.json, in ascending
  // order.
  std::vector<TokenId> eos_ids;
};

// Sampling parameters in generation_config.json. A request uses these values for parameters that
// the request does not set.
struct GenerationDefaults {
  std::optional<float> temperature, top_p, repetition_penalty;
  std::optional<int32_t> top_k;
  bool do_sample = true;
};

// Parses the contents of config.json and generation_config.json. `generation_config_json` is empty
// if the file does not exist. Returns INVALID_ARGUMENT for a bad value; the message contains key,
// value and bound. Returns UNIMPLEMENTED for an unsupported architecture or option, which the
// message names.
absl::StatusOr<ModelConfig> ParseModelConfig(std::string_view config_json,
                                             std::string_view generation_config_json);
absl::StatusOr<ModelConfig> ReadModelConfig(const std::filesystem::path& folder);
absl::StatusOr<GenerationDefaults> ReadGenerationDefaults(const std::filesystem::path& folder);

}  // namespace incipit
