#include "transformer/rope_config.h"

#include <optional>
#include <string>

#include "base/json/json.h"
#include "base/json/json_fields.h"
#include "base/status.h"

namespace incipit {
namespace {

using Json = nlohmann::json;

constexpr NumberRange kThetaRange = {1, 1e15};
constexpr NumberRange kFactorRange = {1e-6, 1e6};
constexpr NumberRange kAttentionFactorRange = {1e-6, 1e3};
constexpr NumberRange kScaleRange = {0, 1e3, true};
constexpr NumberRange kBetaRange = {0, 1e6, true};

absl::StatusOr<RopeType> TypeOf(const JsonFields& scaling) {
  const std::string_view key = scaling.Find("rope_type") != nullptr ? "rope_type" : "type";
  INCIPIT_ASSIGN_OR_RETURN(const std::optional<std::string> name, scaling.OptionalString(key));
  if (!name || *name == "default") return RopeType::kDefault;
  if (*name == "linear") return RopeType::kLinear;
  if (*name == "llama3") return RopeType::kLlama3;
  if (*name == "yarn") return RopeType::kYarn;
  return Unimplemented(
      "the key {} is \"{}\"; the supported values are default, linear, llama3 and yarn",
      scaling.PathOf(key), *name);
}

absl::Status Require(const JsonFields& scaling, std::string_view key) {
  if (scaling.Find(key) != nullptr) return absl::OkStatus();
  return InvalidArgument("{} is missing", scaling.PathOf(key));
}

// Reads the key original_max_position_embeddings: the context length without RoPE scaling. If both
// `config` and `scaling` contain the key, uses the value in `config`. If neither contains the key,
// does not change rope.original_max_positions.
absl::Status ReadOriginalMaxPositions(const JsonFields& config, const JsonFields& scaling,
                                      RopeConfig& rope) {
  constexpr std::string_view kKey = "original_max_position_embeddings";
  INCIPIT_RETURN_IF_ERROR(scaling.Read(kKey, {1, kPositionsMax}, rope.original_max_positions));
  return config.Read(kKey, {1, kPositionsMax}, rope.original_max_positions);
}

absl::Status ReadLlama3(const JsonFields& scaling, RopeConfig& rope) {
  for (const std::string_view key : {"factor", "low_freq_factor", "high_freq_factor"}) {
    INCIPIT_RETURN_IF_ERROR(Require(scaling, key));
  }
  INCIPIT_RETURN_IF_ERROR(scaling.Read("factor", kFactorRange, rope.factor));
  INCIPIT_RETURN_IF_ERROR(scaling.Read("low_freq_factor", kFactorRange, rope.low_freq_factor));
  INCIPIT_RETURN_IF_ERROR(scaling.Read("high_freq_factor", kFactorRange, rope.high_freq_factor));
  if (rope.high_freq_factor <= rope.low_freq_factor) {
    return InvalidArgument("the key {} is {}; it must be above low_freq_factor, which is {}",
                           scaling.PathOf("high_freq_factor"), rope.high_freq_factor,
                           rope.low_freq_factor);
  }
  return absl::OkStatus();
}

// Reads the parameters of YaRN, an extension of RoPE to longer contexts. For beta_fast, beta_slow,
// mscale and mscale_all_dim, the value 0 has the same effect as an absent key.
absl::Status ReadYarn(const JsonFields& scaling, int32_t max_positions, RopeConfig& rope) {
  rope.factor = static_cast<double>(max_positions) / rope.original_max_positions;
  INCIPIT_RETURN_IF_ERROR(scaling.Read("factor", kFactorRange, rope.factor));
  INCIPIT_ASSIGN_OR_RETURN(rope.attention_factor,
                           scaling.OptionalNumber("attention_factor", kAttentionFactorRange));
  INCIPIT_ASSIGN_OR_RETURN(rope.mscale, scaling.OptionalNumber("mscale", kScaleRange));
  INCIPIT_ASSIGN_OR_RETURN(rope.mscale_all_dim,
                           scaling.OptionalNumber("mscale_all_dim", kScaleRange));
  if (rope.mscale == 0) rope.mscale.reset();
  if (rope.mscale_all_dim == 0) rope.mscale_all_dim.reset();
  INCIPIT_ASSIGN_OR_RETURN(const std::optional<double> fast,
                           scaling.OptionalNumber("beta_fast", kBetaRange));
  INCIPIT_ASSIGN_OR_RETURN(const std::optional<double> slow,
                           scaling.OptionalNumber("beta_slow", kBetaRange));
  if (fast && *fast != 0) rope.beta_fast = *fast;
  if (slow && *slow != 0) rope.beta_slow = *slow;
  rope.truncate = !scaling.Contains("truncate");
  return scaling.Read("truncate", rope.truncate);
}

absl::Status RefusePartialRotation(const JsonFields& scaling) {
  const Json* value = scaling.Find("partial_rotary_factor");
  if (value == nullptr || (value->is_number() && value->get<double>() == 1)) {
    return absl::OkStatus();
  }
  return Unimplemented("the key {} is {}; the only supported value is 1",
                       scaling.PathOf("partial_rotary_factor"), ShownValue(*value));
}

// Returns the key of config.json that contains the RoPE parameters: rope_scaling, or
// rope_parameters if rope_scaling is absent or empty.
std::string_view KeyOfScaling(const JsonFields& config) {
  const Json* older = config.Find("rope_scaling");
  return older != nullptr && !older->empty() ? "rope_scaling" : "rope_parameters";
}

}  // namespace

absl::StatusOr<RopeConfig> ParseRopeConfig(const Json& config_json, int32_t max_positions) {
  const JsonFields config(config_json);
  const std::string_view key = KeyOfScaling(config);
  const Json* found = config.Find(key);
  const Json scaling_json = found == nullptr ? Json::object() : *found;
  if (!scaling_json.is_object()) {
    return InvalidArgument("the key {} is {}; it must be an object", key, ShownValue(scaling_json));
  }
  for (const std::string_view nested : {"full_attention", "sliding_attention"}) {
    if (!scaling_json.contains(nested)) continue;
    return Unimplemented(
        "the key {} has separate values for layers of the type {}; this option is not supported",
        key, nested);
  }
  const JsonFields scaling(scaling_json, std::string(key));
  INCIPIT_RETURN_IF_ERROR(RefusePartialRotation(scaling));

  RopeConfig rope;
  rope.original_max_positions = max_positions;
  INCIPIT_RETURN_IF_ERROR(config.Read("rope_theta", kThetaRange, rope.theta));
  INCIPIT_RETURN_IF_ERROR(scaling.Read("rope_theta", kThetaRange, rope.theta));
  INCIPIT_ASSIGN_OR_RETURN(rope.type, TypeOf(scaling));
  switch (rope.type) {
    case RopeType::kDefault:
      break;
    case RopeType::kLinear:
      INCIPIT_RETURN_IF_ERROR(Require(scaling, "factor"));
      INCIPIT_RETURN_IF_ERROR(scaling.Read("factor", kFactorRange, rope.factor));
      break;
    case RopeType::kLlama3:
      INCIPIT_RETURN_IF_ERROR(ReadOriginalMaxPositions(config, scaling, rope));
      INCIPIT_RETURN_IF_ERROR(ReadLlama3(scaling, rope));
      break;
    case RopeType::kYarn:
      INCIPIT_RETURN_IF_ERROR(ReadOriginalMaxPositions(config, scaling, rope));
      INCIPIT_RETURN_IF_ERROR(ReadYarn(scaling, max_positions, rope));
      break;
  }
  return rope;
}

}  // namespace incipit
