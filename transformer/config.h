// Declares ModelConfig, the configuration of a model in the format of Hugging Face. A ModelConfig
// contains only valid values, because all values are checked when the files are read.
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

// Maximum values in the configuration of a model. Supported models have much smaller values. The
// product of any three maximum values fits into 64 bits.
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
  // Parameters for `type` kLlama3 only.
  double low_freq_factor = 1, high_freq_factor = 4;
  // The following members, up to `truncate`, are used only if `type` is kYarn.
  double beta_fast = 32, beta_slow = 1;
  std::optional<double> attention_factor, mscale, mscale_all_dim;
  bool truncate = true;
};

struct ModelConfig {
  // Name of the architecture, such as "LlamaForCausalLM", from the key `architectures` of
  // config.json.
  std::string architecture;
  int32_t hidden_size = 0, intermediate_size = 0, num_layers = 0;
  int32_t num_heads = 0, num_kv_heads = 0, head_dim = 0;
  int32_t vocab_size = 0, max_positions = 0;
  float rms_norm_epsilon = 0;
  // True if the output head (lm_head) uses the same tensor as the token embedding. If the
  // checkpoint contains a separate tensor for the head, this setting has no effect.
  bool tied_embeddings = false;
  // True if config.json contains the key tie_word_embeddings. An absent key has the same effect as
  // the value true.
  bool tying_is_given = false;
  bool qkv_bias = false, output_bias = false, mlp_bias = false, qk_norm = false;
  RopeConfig rope;
  // Element i is the attention window of layer i, in positions. 0: the layer attends to all
  // positions.
  std::vector<int32_t> layer_windows;
  // Element type of the weights, from the key dtype or torch_dtype of config.json. Absent if both
  // keys are absent, or if the value is "auto". CheckTensors reports an error if the checkpoint has
  // another type.
  std::optional<DType> dtype;
  // Ids of all end-of-sequence tokens, in ascending order, from generation_config.json and
  // config.json.
  std::vector<TokenId> eos_ids;
};

// Default sampling parameters of a model, from generation_config.json. A request can set other
// values.
struct GenerationDefaults {
  std::optional<float> temperature, top_p, repetition_penalty;
  std::optional<int32_t> top_k;
  bool do_sample = true;
};

// Parses the contents of config.json and generation_config.json (an empty string if this file does
// not exist). Returns INVALID_ARGUMENT for an invalid value, and UNIMPLEMENTED for an unsupported
// architecture or option. The error message contains the key.
absl::StatusOr<ModelConfig> ParseModelConfig(std::string_view config_json,
                                             std::string_view generation_config_json);
absl::StatusOr<ModelConfig> ReadModelConfig(const std::filesystem::path& folder);
absl::StatusOr<GenerationDefaults> ReadGenerationDefaults(const std::filesystem::path& folder);

}  // namespace incipit
