#include "text/chat/call_reader.h"

#include "base/check.h"
#include "text/chat/json_readers.h"
#include "text/chat/section_reader.h"
#include "text/chat/tag_reader.h"

namespace incipit {

CallReader::State CallReader::Add(std::optional<std::vector<ToolCall>> calls, State success) {
  if (!calls) return State::kFailed;
  for (ToolCall& call : *calls) calls_.push_back(std::move(call));
  return success;
}

CallBegin CallBeginOf(ToolFormat format) {
  switch (format) {
    case ToolFormat::kNone:
      return {};
    case ToolFormat::kHermes:
    case ToolFormat::kQwenXml:
    case ToolFormat::kGlm:
      return {.marker = "<tool_call>", .first_bytes = {}};
    case ToolFormat::kLlamaJson:
      return {.marker = "<|python_tag|>", .first_bytes = "{[", .separator = ';'};
    case ToolFormat::kPythonic:
      return {.marker = "<|python_start|>", .first_bytes = "["};
    case ToolFormat::kMistral:
      return {.marker = "[TOOL_CALLS]", .first_bytes = {}};
    case ToolFormat::kDeepSeek:
      return {.marker = kDeepSeekSection.begin, .first_bytes = {}};
    case ToolFormat::kKimi:
      return {.marker = kKimiSection.begin, .first_bytes = {}};
    case ToolFormat::kSeedXml:
      return {.marker = "<seed:tool_call>", .first_bytes = {}};
    case ToolFormat::kMiniMaxXml:
      return {.marker = "<minimax:tool_call>", .first_bytes = {}};
    case ToolFormat::kNemotron:
      return {.marker = "<TOOLCALL>", .first_bytes = {}};
    case ToolFormat::kGranite:
      return {.marker = "<|tool_call|>", .first_bytes = {}};
    case ToolFormat::kJson:
      return {.marker = {}, .first_bytes = "{["};
  }
  return {};
}

std::unique_ptr<CallReader> MakeCallReader(ToolFormat format, const StringParameters* strings) {
  switch (format) {
    case ToolFormat::kNone:
      break;
    case ToolFormat::kHermes:
      return std::make_unique<JsonCallReader>("</tool_call>");
    case ToolFormat::kNemotron:
      return std::make_unique<JsonCallReader>("</TOOLCALL>");
    case ToolFormat::kLlamaJson:
      return std::make_unique<JsonCallReader>("", CallBeginOf(format).separator);
    case ToolFormat::kGranite:
    case ToolFormat::kJson:
      return std::make_unique<JsonCallReader>("");
    case ToolFormat::kPythonic:
      return std::make_unique<PythonCallReader>();
    case ToolFormat::kMistral:
      return std::make_unique<MistralCallReader>();
    case ToolFormat::kDeepSeek:
      return std::make_unique<SectionReader>(kDeepSeekSection, ReadDeepSeekCall);
    case ToolFormat::kKimi:
      return std::make_unique<SectionReader>(kKimiSection, ReadKimiCall);
    case ToolFormat::kQwenXml:
      return std::make_unique<TagReader>("</tool_call>", kQwenTags, strings);
    case ToolFormat::kSeedXml:
      return std::make_unique<TagReader>("</seed:tool_call>", kQwenTags, strings);
    case ToolFormat::kMiniMaxXml:
      return std::make_unique<TagReader>("</minimax:tool_call>", kMiniMaxTags, strings);
    case ToolFormat::kGlm:
      return std::make_unique<TagReader>("</tool_call>", kGlmTags, strings);
  }
  INCIPIT_CHECK(format != ToolFormat::kNone);
  return nullptr;
}

}  // namespace incipit
