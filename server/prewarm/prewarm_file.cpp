#include "server/prewarm/prewarm_file.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/json/json.h"
#include "base/json/json_fields.h"
#include "base/mapped_file.h"
#include "base/status.h"
#include "server/session/request/checked_request.h"
#include "server/session/request/field_checks.h"

namespace incipit {
namespace {

constexpr std::array<std::string_view, 4> kKeys = {"tenant", "salt", "text", "token_ids"};
// Limits for the JSON object in a line. The maximum number of bytes also limits the number of
// values.
constexpr JsonLimits kLineLimits = {
    .bytes_max = kPrewarmLineBytesMax, .values_max = kPrewarmLineBytesMax, .depth_max = 2};

absl::Status CheckKeys(const nlohmann::json& object) {
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::find(kKeys, key) == kKeys.end()) {
      return InvalidArgument("has the unknown key {}; the keys are {}",
                             ShownValue(nlohmann::json(key)), fmt::join(kKeys, ", "));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<TokensDraft> ReadTokenIds(const JsonFields& fields) {
  INCIPIT_ASSIGN_OR_RETURN(const nlohmann::json* ids, fields.Array("token_ids"));
  if (ids->empty()) return InvalidArgument("token_ids is empty");
  TokensDraft out;
  out.reserve(ids->size());
  for (const nlohmann::json& id : *ids) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > std::numeric_limits<int32_t>::max()) {
      return InvalidArgument("token_ids[{}] is {}; it must be a whole number from 0 to {}",
                             out.size(), ShownValue(id), std::numeric_limits<int32_t>::max());
    }
    out.push_back(static_cast<TokenId>(id.get<uint64_t>()));
  }
  return out;
}

absl::StatusOr<PrewarmPrompt> ParseLine(std::string_view line, const RequestLimits& limits) {
  INCIPIT_ASSIGN_OR_RETURN(const nlohmann::json object, ParseJsonObject(line, kLineLimits));
  INCIPIT_RETURN_IF_ERROR(CheckKeys(object));
  const JsonFields fields(object);
  PrewarmPrompt prompt;
  INCIPIT_ASSIGN_OR_RETURN(std::optional<std::string> tenant, fields.OptionalString("tenant"));
  prompt.tenant = tenant ? *std::move(tenant) : std::string(kDefaultTenant);
  if (!CheckTenant(prompt.tenant, limits).ok()) {
    return InvalidArgument(
        "tenant must be from 1 to {} letters, digits, '.', '_' and '-' (--tenant-bytes-max)",
        limits.tenant_bytes_max);
  }
  INCIPIT_ASSIGN_OR_RETURN(std::optional<std::string> salt, fields.OptionalString("salt"));
  prompt.salt = std::move(salt).value_or("");
  if (prompt.salt.size() > static_cast<size_t>(limits.cache_salt_bytes_max)) {
    return InvalidArgument("salt has {} bytes; --cache-salt-bytes-max is {}", prompt.salt.size(),
                           limits.cache_salt_bytes_max);
  }
  INCIPIT_ASSIGN_OR_RETURN(std::optional<std::string> text, fields.OptionalString("text"));
  if (text.has_value() == (fields.Find("token_ids") != nullptr)) {
    return InvalidArgument("must have either text or token_ids");
  }
  if (!text) {
    INCIPIT_ASSIGN_OR_RETURN(prompt.prompt, ReadTokenIds(fields));
    return prompt;
  }
  if (text->empty()) return InvalidArgument("text is empty");
  prompt.prompt = *std::move(text);
  return prompt;
}

}  // namespace

absl::StatusOr<std::vector<PrewarmPrompt>> ParsePrewarmPrompts(std::string_view text,
                                                               std::string_view name,
                                                               const RequestLimits& limits) {
  if (text.size() > kPrewarmBytesMax) {
    return InvalidArgument("{} has more than {} bytes, the maximum", name, kPrewarmBytesMax);
  }
  std::vector<PrewarmPrompt> prompts;
  for (int32_t number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    if (prompts.size() == kPrewarmPromptsMax) {
      return InvalidArgument("{}:{}: the file has more than {} prompts, the maximum", name, number,
                             kPrewarmPromptsMax);
    }
    absl::StatusOr<PrewarmPrompt> prompt = ParseLine(line, limits);
    if (!prompt.ok()) return InvalidArgument("{}:{}: {}", name, number, MessageOf(prompt.status()));
    prompt->line = number;
    prompts.push_back(*std::move(prompt));
  }
  return prompts;
}

absl::StatusOr<std::vector<PrewarmPrompt>> ReadPrewarmFile(const std::string& path,
                                                           const RequestLimits& limits) {
  INCIPIT_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kPrewarmBytesMax));
  return ParsePrewarmPrompts(text, path, limits);
}

}  // namespace incipit
