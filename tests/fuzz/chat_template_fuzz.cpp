// Fuzzes chat templates. The input is both the template and the conversation. A rendered prompt
// must be UTF-8 within the size limit. The literal ranges of the prompt must be within the prompt,
// in order and disjoint.
#include <cstdint>
#include <string>

#include "base/check.h"
#include "text/chat/chat_template.h"
#include "text/unicode/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using Json = nlohmann::ordered_json;
  constexpr incipit::ChatTemplateLimits kLimits = {
      .steps_max = 20'000, .output_bytes_max = 1 << 16, .memory_bytes_max = 8 << 20};
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  const auto parsed = incipit::ChatTemplate::Parse(source, kLimits);
  if (!parsed.ok()) return 0;
  const Json variables = {
      {"messages",
       {{{"role", "system"}, {"content", "S\xC3\xA9"}},
        {{"role", "user"}, {"content", std::string(source)}, {"n", 2.5}},
        {{"role", "assistant"}, {"content", nullptr}, {"tool_calls", {{{"name", "f"}}}}}}},
      {"tools", {{{"type", "function"}, {"function", {{"name", "f"}}}}}},
      {"bos_token", "<s>"},
      {"add_generation_prompt", true}};
  const auto prompt = parsed->Render(variables);
  if (!prompt.ok()) return 0;
  INCIPIT_CHECK(prompt->text.size() <= kLimits.output_bytes_max);
  INCIPIT_CHECK(incipit::IsUtf8(prompt->text));
  size_t end = 0;
  for (const incipit::ByteRange& range : prompt->literal_ranges) {
    INCIPIT_CHECK(range.begin >= end && range.begin < range.end);
    INCIPIT_CHECK(range.end <= prompt->text.size());
    end = range.end;
  }
  return 0;
}
