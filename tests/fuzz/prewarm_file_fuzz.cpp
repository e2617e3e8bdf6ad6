// Fuzzes the parser of the file of --prewarm. Each line that the parser accepts must be a JSON
// object, and its prompt, tenant and salt must be valid. Every error must name a line.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>
#include <variant>

#include "base/check.h"
#include "base/status.h"
#include "server/prewarm/prewarm_file.h"
#include "server/session/request/checked_request.h"

namespace {

std::string_view LineOf(std::string_view text, int32_t number) {
  for (; number > 1; --number) text.remove_prefix(text.find('\n') + 1);
  return text.substr(0, text.find('\n'));
}

void CheckPrompt(const incipit::PrewarmPrompt& prompt, std::string_view text,
                 const incipit::RequestLimits& limits) {
  INCIPIT_CHECK(nlohmann::json::parse(LineOf(text, prompt.line)).is_object());
  INCIPIT_CHECK(incipit::CheckTenant(prompt.tenant, limits).ok());
  INCIPIT_CHECK(prompt.salt.size() <= static_cast<size_t>(limits.cache_salt_bytes_max));
  if (const auto* const ids = std::get_if<incipit::TokensDraft>(&prompt.prompt)) {
    INCIPIT_CHECK(!ids->empty());
    for (const incipit::TokenId id : *ids) INCIPIT_CHECK(id >= 0);
  } else {
    INCIPIT_CHECK(!std::get<std::string>(prompt.prompt).empty());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const incipit::RequestLimits limits;
  const auto prompts = incipit::ParsePrewarmPrompts(text, "file", limits);
  if (!prompts.ok()) {
    INCIPIT_CHECK(incipit::MessageOf(prompts.status()).starts_with("file:"));
    INCIPIT_CHECK(prompts.status().message().size() < 4096);
    return 0;
  }
  int32_t line = 0;
  for (const incipit::PrewarmPrompt& prompt : *prompts) {
    INCIPIT_CHECK(prompt.line > line);
    line = prompt.line;
    CheckPrompt(prompt, text, limits);
  }
  return 0;
}
