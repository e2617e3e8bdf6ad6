#include "transformer/config.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "base/json/json.h"
#include "base/json/json_fields.h"
#include "base/mapped_file.h"
#include "base/status.h"
#include "transformer/family.h"
#include "transformer/rope_config.h"
#include "transformer/unsupported_keys.h"

namespace incipit {
namespace {

using Json = nlohmann::json;

constexpr JsonLimits kConfigJsonLimits = {
    .bytes_max = size_t{4} << 20, .values_max = 100'000, .depth_max = 64};

absl::Status ReadHeads(const JsonFields& fields, const Family& family, ModelConfig& config) {
  config.num_heads = 32;
  INCIPIT_RETURN_IF_ERROR(fields.Read("num_attention_heads", {1, kHeadsMax}, config.num_heads));
  config.num_kv_heads = family.num_kv_heads.value_or(config.num_heads);
  // The value null of num_key_value_heads means: as many KV heads as query heads.
  if (fields.Contains("num_key_value_heads")) config.num_kv_heads = config.num_heads;
  INCIPIT_RETURN_IF_ERROR(fields.Read("num_key_value_heads", {1, kHeadsMax}, config.num_kv_heads));
  if (config.num_heads % config.num_kv_heads != 0) {
    return InvalidArgument(
        "num_key_value_heads is {}; it must divide num_attention_heads, which is {}",
        config.num_kv_heads, config.num_heads);
  }
  if (fields.Find("head_dim") == nullptr && !family.head_dim) {
    config.head_dim = config.hidden_size / config.num_heads;
    if (family.model_type == "llama" && config.hidden_size % config.num_heads != 0) {
      return InvalidArgument(
          "hidden_size is {}; it must be a multiple of num_attention_heads, which is {}",
          config.hidden_size, config.num_heads);
    }
  } else {
    config.head_dim = family.head_dim.value_or(0);
    INCIPIT_RETURN_IF_ERROR(fields.Read("head_dim", {1, kHeadDimMax}, config.head_dim));
  }
  if (config.head_dim < 2 || config.head_dim % 2 != 0 || config.head_dim > kHeadDimMax) {
    return InvalidArgument("head_dim is {}; it must be even and from 2 to {}", config.head_dim,
                           kHeadDimMax);
  }
  return absl::OkStatus();
}

absl::Status ReadShape(const JsonFields& fields, const Family& family, ModelConfig& config) {
  config.hidden_size = 4096;
  config.intermediate_size = family.intermediate_size;
  config.num_layers = 32;
  config.vocab_size = family.vocab_size;
  config.max_positions = family.max_positions;
  double epsilon = 1e-6;
  INCIPIT_RETURN_IF_ERROR(fields.Read("hidden_size", {1, kHiddenSizeMax}, config.hidden_size));
  INCIPIT_RETURN_IF_ERROR(
      fields.Read("intermediate_size", {1, kIntermediateSizeMax}, config.intermediate_size));
  INCIPIT_RETURN_IF_ERROR(fields.Read("num_hidden_layers", {1, kLayersMax}, config.num_layers));
  INCIPIT_RETURN_IF_ERROR(fields.Read("vocab_size", {1, kVocabSizeMax}, config.vocab_size));
  INCIPIT_RETURN_IF_ERROR(
      fields.Read("max_position_embeddings", {1, kPositionsMax}, config.max_positions));
  INCIPIT_RETURN_IF_ERROR(fields.Read("rms_norm_eps", NumberRange{0, 1}, epsilon));
  INCIPIT_RETURN_IF_ERROR(fields.Read("tie_word_embeddings", config.tied_embeddings));
  config.tying_is_given = fields.Find("tie_word_embeddings") != nullptr;
  config.rms_norm_epsilon = static_cast<float>(epsilon);
  return ReadHeads(fields, family, config);
}

absl::Status ReadActivation(const JsonFields& fields) {
  INCIPIT_ASSIGN_OR_RETURN(const std::optional<std::string> name,
                           fields.OptionalString("hidden_act"));
  if (!name || *name == "silu" || *name == "swish") return absl::OkStatus();
  return Unimplemented("hidden_act is \"{}\"; the only supported value is silu", *name);
}

// Reads the keys of config.json that add bias tensors to a model of the family `family`. Ignores
// keys for the bias tensors of other families.
absl::Status ReadBiases(const JsonFields& fields, const Family& family, ModelConfig& config) {
  const bool is_llama = family.model_type == "llama", is_qwen3 = family.model_type == "qwen3";
  bool attention_bias = false;
  if (is_llama || is_qwen3) {
    INCIPIT_RETURN_IF_ERROR(fields.Read("attention_bias", attention_bias));
  }
  if (is_llama) INCIPIT_RETURN_IF_ERROR(fields.Read("mlp_bias", config.mlp_bias));
  config.qkv_bias = attention_bias || family.model_type == "qwen2";
  config.output_bias = attention_bias;
  config.qk_norm = is_qwen3;
  return absl::OkStatus();
}

enum class LayerType : uint8_t { kFull, kSliding };

// Returns the elements of the key `layer_types` of config.json, or an empty list if this key is
// absent.
absl::StatusOr<std::vector<LayerType>> ReadLayerTypes(const JsonFields& fields,
                                                      int32_t num_layers) {
  std::vector<LayerType> types;
  const Json* names = fields.Find("layer_types");
  if (names == nullptr) return types;
  if (!names->is_array() || names->size() != static_cast<size_t>(num_layers)) {
    return InvalidArgument(
        "layer_types is {}; it must be an array with a name for each of the {} layers "
        "(num_hidden_layers)",
        ShownValue(*names), num_layers);
  }
  for (const Json& name : *names) {
    if (name == "full_attention" || name == "attention") {
      types.push_back(LayerType::kFull);
    } else if (name == "sliding_attention") {
      types.push_back(LayerType::kSliding);
    } else if (name.is_string()) {
      return Unimplemented(
          "layer_types contains {}; the supported values are full_attention and sliding_attention",
          ShownValue(name));
    } else {
      return InvalidArgument("layer_types contains {}; all elements must be names",
                             ShownValue(name));
    }
  }
  return types;
}

// Returns the size of the sliding window of attention, in positions. Returns 0 if the model has no
// window.
absl::StatusOr<int32_t> ReadWindow(const JsonFields& fields, const Family& family) {
  if (!fields.Contains("sliding_window")) return family.sliding_window;
  int32_t window = 0;
  INCIPIT_RETURN_IF_ERROR(
      fields.Read("sliding_window", {1, std::numeric_limits<int32_t>::max()}, window));
  return window;
}

// Returns an error if an element of `layer_types` differs from `expected`. In a Mistral model with
// an attention window, every layer has the window. In a Llama model, no layer has a window.
absl::Status CheckUniformLayers(std::span<const LayerType> types, LayerType expected,
                                std::string_view architecture) {
  if (std::ranges::all_of(types, [&](LayerType type) { return type == expected; })) {
    return absl::OkStatus();
  }
  return Unimplemented(
      "layer_types contains {}; with this value of sliding_window, the architecture {} has no "
      "such layers",
      expected == LayerType::kFull ? "sliding_attention" : "full_attention", architecture);
}

absl::Status ReadWindows(const JsonFields& fields, const Family& family, ModelConfig& config) {
  INCIPIT_ASSIGN_OR_RETURN(std::vector<LayerType> types, ReadLayerTypes(fields, config.num_layers));
  INCIPIT_ASSIGN_OR_RETURN(int32_t window, ReadWindow(fields, family));
  const bool is_mistral = family.model_type == "mistral";
  const bool is_qwen = family.model_type == "qwen2" || family.model_type == "qwen3";
  bool use_window = is_mistral;
  int32_t max_window_layers = 28;
  if (is_qwen) {
    constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
    INCIPIT_RETURN_IF_ERROR(fields.Read("use_sliding_window", use_window));
    INCIPIT_RETURN_IF_ERROR(fields.Read("max_window_layers", {0, kMax}, max_window_layers));
  } else if (!is_mistral) {
    bool is_used = true;
    INCIPIT_RETURN_IF_ERROR(fields.Read("use_sliding_window", is_used));
    if (is_used && window > 0 && window < config.max_positions) {
      return Unimplemented("sliding_window is {}, but the architecture {} has no sliding window",
                           window, family.architecture);
    }
  }
  if (!use_window) window = 0;
  if (!is_qwen) {
    INCIPIT_RETURN_IF_ERROR(CheckUniformLayers(
        types, window > 0 ? LayerType::kSliding : LayerType::kFull, family.architecture));
    config.layer_windows.assign(static_cast<size_t>(config.num_layers), window);
    return absl::OkStatus();
  }
  for (int32_t layer = 0; layer < config.num_layers; ++layer) {
    const bool is_sliding = types.empty()
                                ? window && layer >= max_window_layers
                                : types[static_cast<size_t>(layer)] == LayerType::kSliding;
    if (is_sliding && window == 0) {
      return InvalidArgument(
          "layer_types contains sliding_attention, but no sliding window is set: "
          "use_sliding_window must be true, and sliding_window must be an integer");
    }
    config.layer_windows.push_back(is_sliding ? window : 0);
  }
  return absl::OkStatus();
}

absl::Status ReadDType(const JsonFields& fields, ModelConfig& config) {
  const std::string_view key = fields.Find("dtype") != nullptr ? "dtype" : "torch_dtype";
  INCIPIT_ASSIGN_OR_RETURN(const std::optional<std::string> name, fields.OptionalString(key));
  if (!name || *name == "auto") return absl::OkStatus();
  if (*name == "float32") {
    config.dtype = DType::kF32;
  } else if (*name == "float16") {
    config.dtype = DType::kF16;
  } else if (*name == "bfloat16") {
    config.dtype = DType::kBF16;
  } else {
    return Unimplemented(
        "the key {} is \"{}\"; the supported values are float32, float16 and bfloat16", key, *name);
  }
  return absl::OkStatus();
}

constexpr double kTemperatureMax = 100;
constexpr double kRepetitionPenaltyMax = 100;

// Adds the ids of the end-of-sequence tokens to config.eos_ids. The key eos_token_id contains one
// id or a list of ids.
absl::Status ReadEosIds(const JsonFields& fields, ModelConfig& config) {
  const Json* value = fields.Find("eos_token_id");
  if (value == nullptr) return absl::OkStatus();
  const Json list = value->is_array() ? *value : Json::array({*value});
  if (list.size() > size_t{kEosIdsMax}) {
    return InvalidArgument("eos_token_id has {} ids; it must have at most {}", list.size(),
                           kEosIdsMax);
  }
  for (const Json& id : list) {
    const Json object = {{"eos_token_id", id}};
    INCIPIT_ASSIGN_OR_RETURN(
        const std::optional<int64_t> number,
        JsonFields(object).OptionalInteger("eos_token_id", {0, config.vocab_size - 1}));
    if (!number)
      return InvalidArgument("eos_token_id contains null; it must contain integers only");
    config.eos_ids.push_back(static_cast<TokenId>(*number));
  }
  std::ranges::sort(config.eos_ids);
  config.eos_ids.erase(std::unique(config.eos_ids.begin(), config.eos_ids.end()),
                       config.eos_ids.end());
  return absl::OkStatus();
}

absl::StatusOr<ModelConfig> ParseConfig(std::string_view text) {
  INCIPIT_ASSIGN_OR_RETURN(const Json json, ParseJsonObject(text, kConfigJsonLimits));
  const JsonFields fields(json);
  INCIPIT_ASSIGN_OR_RETURN(const Family* family, ReadFamily(fields));
  ModelConfig config;
  config.architecture = family->architecture;
  INCIPIT_RETURN_IF_ERROR(RefuseUnsupportedKeys(fields));
  INCIPIT_RETURN_IF_ERROR(ReadActivation(fields));
  INCIPIT_RETURN_IF_ERROR(ReadShape(fields, *family, config));
  INCIPIT_RETURN_IF_ERROR(ReadBiases(fields, *family, config));
  INCIPIT_RETURN_IF_ERROR(ReadWindows(fields, *family, config));
  INCIPIT_RETURN_IF_ERROR(ReadDType(fields, config));
  INCIPIT_ASSIGN_OR_RETURN(config.rope, ParseRopeConfig(json, config.max_positions));
  INCIPIT_RETURN_IF_ERROR(ReadEosIds(fields, config));
  return config;
}

absl::Status ReadOptional(const JsonFields& fields, std::string_view key, NumberRange range,
                          std::optional<float>& target) {
  INCIPIT_ASSIGN_OR_RETURN(const std::optional<double> value, fields.OptionalNumber(key, range));
  if (value) target = static_cast<float>(*value);
  return absl::OkStatus();
}

absl::StatusOr<GenerationDefaults> ParseGenerationDefaults(std::string_view text) {
  INCIPIT_ASSIGN_OR_RETURN(const Json json, ParseJsonObject(text, kConfigJsonLimits));
  const JsonFields fields(json);
  GenerationDefaults defaults;
  INCIPIT_RETURN_IF_ERROR(
      ReadOptional(fields, "temperature", {0, kTemperatureMax, true}, defaults.temperature));
  INCIPIT_RETURN_IF_ERROR(ReadOptional(fields, "top_p", {0, 1}, defaults.top_p));
  INCIPIT_RETURN_IF_ERROR(ReadOptional(fields, "repetition_penalty", {0, kRepetitionPenaltyMax},
                                       defaults.repetition_penalty));
  INCIPIT_ASSIGN_OR_RETURN(
      const std::optional<int64_t> top_k,
      fields.OptionalInteger("top_k", {-1, std::numeric_limits<int32_t>::max()}));
  // A negative top_k means all tokens.
  if (top_k) defaults.top_k = static_cast<int32_t>(std::max<int64_t>(*top_k, 0));
  INCIPIT_RETURN_IF_ERROR(fields.Read("do_sample", defaults.do_sample));
  return defaults;
}

absl::Status AddGenerationEosIds(std::string_view text, ModelConfig& config) {
  if (text.empty()) return absl::OkStatus();
  INCIPIT_ASSIGN_OR_RETURN(const Json json, ParseJsonObject(text, kConfigJsonLimits));
  return ReadEosIds(JsonFields(json), config);
}

}  // namespace

absl::StatusOr<ModelConfig> ParseModelConfig(std::string_view config_json,
                                             std::string_view generation_config_json) {
  absl::StatusOr<ModelConfig> config = ParseConfig(config_json);
  if (!config.ok()) return Annotate(config.status(), "config.json");
  INCIPIT_RETURN_IF_ERROR(
      Annotate(AddGenerationEosIds(generation_config_json, *config), "generation_config.json"));
  return config;
}

absl::StatusOr<ModelConfig> ReadModelConfig(const std::filesystem::path& folder) {
  INCIPIT_ASSIGN_OR_RETURN(const std::string config, ReadTextFile(folder / "config.json"));
  INCIPIT_ASSIGN_OR_RETURN(const auto generation,
                           ReadTextFileIfExists(folder / "generation_config.json"));
  return ParseModelConfig(config, generation.value_or(""));
}

absl::StatusOr<GenerationDefaults> ReadGenerationDefaults(const std::filesystem::path& folder) {
  INCIPIT_ASSIGN_OR_RETURN(const auto text,
                           ReadTextFileIfExists(folder / "generation_config.json"));
  if (!text) return GenerationDefaults();
  absl::StatusOr<GenerationDefaults> defaults = ParseGenerationDefaults(*text);
  if (!defaults.ok()) return Annotate(defaults.status(), "generation_config.json");
  return defaults;
}

}  // namespace incipit
