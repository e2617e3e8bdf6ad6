#include "transformer/unsupported_keys.h"

#include <cstdint>
#include <string>
#include <string_view>

#include "base/json/json.h"
#include "base/status.h"

namespace incipit {
namespace {

using Json = nlohmann::json;

// The values of a key in config.json that turn an unsupported option off. All other values are
// refused. kEmpty means null, false, 0, "", [] or {}.
enum class Neutral : uint8_t { kEmpty, kOne, kTrue };
struct UnsupportedKey {
  std::string_view key;
  Neutral neutral;
};
constexpr UnsupportedKey kUnsupportedKeys[] = {
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

}  // namespace

absl::Status RefuseUnsupportedKeys(const JsonFields& fields) {
  for (const UnsupportedKey& unsupported : kUnsupportedKeys) {
    const Json* value = fields.Find(unsupported.key);
    if (value == nullptr || IsNeutral(*value, unsupported.neutral)) continue;
    return Unimplemented("the key {} is {}; Incipit does not support this option", unsupported.key,
                         ShownValue(*value));
  }
  return absl::OkStatus();
}

}  // namespace incipit
