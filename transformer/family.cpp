#include "transformer/family.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "base/json/json.h"
#include "base/status.h"

namespace incipit {
namespace {

using Json = nlohmann::json;

constexpr Family kFamilies[] = {
    {"LlamaForCausalLM", "llama", 11008, 32000, 2048, {}, {}, 0},
    {"MistralForCausalLM", "mistral", 14336, 32000, 131072, 8, {}, 4096},
    {"Qwen2ForCausalLM", "qwen2", 22016, 151936, 32768, 32, {}, 4096},
    {"Qwen3ForCausalLM", "qwen3", 22016, 151936, 32768, 32, 128, 4096},
};

// Keys by which a configuration asks for arithmetic that the four families do not have. They are
// refused unless they hold the value at which they change nothing.
enum class Neutral : uint8_t { kEmpty, kOne, kTrue };  // kEmpty: null, false, 0, "", [], {}
struct ForeignKey {
  std::string_view key;
  Neutral neutral;
};
constexpr ForeignKey kForeignKeys[] = {
    {"quantization_config", Neutral::kEmpty},
    {"compression_config", Neutral::kEmpty},
    {"per_layer_config", Neutral::kEmpty},
    {"partial_rotary_factor", Neutral::kOne},
    {"rotary_pct", Neutral::kOne},
    {"is_causal", Neutral::kTrue},
    {"is_encoder_decoder", Neutral::kEmpty},
    {"use_bidirectional_attention", Neutral::kEmpty},
    {"attn_logit_softcapping", Neutral::kEmpty},
    {"attention_logit_softcapping", Neutral::kEmpty},
    {"final_logit_softcapping", Neutral::kEmpty},
    {"query_pre_attn_scalar", Neutral::kEmpty},
    {"attention_multiplier", Neutral::kEmpty},
    {"attention_chunk_size", Neutral::kEmpty},
    {"attn_temperature_tuning", Neutral::kEmpty},
    {"embedding_multiplier", Neutral::kOne},
    {"residual_multiplier", Neutral::kOne},
    {"logits_scaling", Neutral::kOne},
    {"logit_scale", Neutral::kOne},
    {"scale_emb", Neutral::kOne},
    {"scale_depth", Neutral::kEmpty},
    {"alibi", Neutral::kEmpty},
    {"clip_qkv", Neutral::kEmpty},
    {"no_rope_layers", Neutral::kEmpty},
    {"num_experts", Neutral::kEmpty},
    {"num_local_experts", Neutral::kEmpty},
    {"n_routed_experts", Neutral::kEmpty},
    {"kv_lora_rank", Neutral::kEmpty},
    {"q_lora_rank", Neutral::kEmpty},
};

bool IsEmpty(const Json& value) {
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number()) return value.get<double>() == 0;
  if (value.is_string()) return value.get_ref<const std::string&>().empty();
  return value.empty();
}

bool IsNeutral(const Json& value, Neutral neutral) {
  switch (neutral) {
    case Neutral::kEmpty:
      return IsEmpty(value);
    case Neutral::kOne:
      return value.is_number() && value.get<double>() == 1;
    case Neutral::kTrue:
      return value.is_boolean() && value.get<bool>();
  }
  return false;
}

std::string SupportedArchitectures() {
  std::string names;
  for (const Family& family : kFamilies) {
    if (!names.empty()) names += ", ";
    names += family.architecture;
  }
  return names;
}

const Family* FindFamily(std::string_view name, std::string_view Family::*member) {
  const auto found = std::ranges::find(kFamilies, name, member);
  return found == std::end(kFamilies) ? nullptr : found;
}

}  // namespace

absl::StatusOr<const Family*> ReadFamily(const JsonFields& fields) {
  INCIPIT_ASSIGN_OR_RETURN(const std::optional<std::string> model_type,
                           fields.OptionalString("model_type"));
  const Family* by_type = model_type ? FindFamily(*model_type, &Family::model_type) : nullptr;
  const Json* names = fields.Find("architectures");
  if (names == nullptr) {
    if (by_type != nullptr) return by_type;
    return InvalidArgument("architectures is missing; supported: {}", SupportedArchitectures());
  }
  if (!names->is_array() || names->size() != 1 || !names->front().is_string()) {
    return InvalidArgument("architectures is {}; it must be an array of one name",
                           ShownValue(*names));
  }
  const auto& name = names->front().get_ref<const std::string&>();
  const Family* family = FindFamily(name, &Family::architecture);
  if (family == nullptr) {
    return Unimplemented("architectures is {}; supported: {}", ShownValue(*names),
                         SupportedArchitectures());
  }
  if (model_type && by_type != family) {
    return InvalidArgument("model_type is \"{}\"; the architecture {} has \"{}\"", *model_type,
                           name, family->model_type);
  }
  return family;
}

absl::Status RefuseForeignKeys(const JsonFields& fields) {
  for (const ForeignKey& foreign : kForeignKeys) {
    const Json* value = fields.Find(foreign.key);
    if (value == nullptr || IsNeutral(*value, foreign.neutral)) continue;
    return Unimplemented("{} is {}; this option is not supported", foreign.key, ShownValue(*value));
  }
  return absl::OkStatus();
}

}  // namespace incipit
