#include "text/chat/tool_format.h"

#include <algorithm>

namespace incipit {
namespace {

// A rule that detects a format of tool calls. The format is detected if the source text of the chat
// template contains both strings, `first` and `second`.
struct DetectionRule {
  ToolFormat format;
  std::string_view first;
  std::string_view second = {};  // empty if the rule has only the string `first`
};

// Rules that detect the format of tool calls. The order matters: the first matching rule applies,
// and <tool_call> occurs in several rules.
constexpr DetectionRule kDetectionRules[] = {
    {ToolFormat::kMistral, "[TOOL_CALLS]"},
    {ToolFormat::kDeepSeek, "<｜tool▁calls▁begin｜>", "<｜tool▁sep｜>"},
    {ToolFormat::kKimi, "<|tool_calls_section_begin|>", "<|tool_call_argument_begin|>"},
    {ToolFormat::kSeedXml, "<seed:tool_call>", "<function="},
    {ToolFormat::kMiniMaxXml, "<minimax:tool_call>", "<invoke name="},
    {ToolFormat::kGlm, "<tool_call>", "<arg_key>"},
    {ToolFormat::kQwenXml, "<tool_call>", "<function="},
    {ToolFormat::kNemotron, "<TOOLCALL>"},
    {ToolFormat::kGranite, "<|tool_call|>"},
    {ToolFormat::kHermes, "<tool_call>"},
    {ToolFormat::kPythonic, "[func_name1(params_name1="},
    {ToolFormat::kLlamaJson, R"({"name": function name, "parameters":)"},
};

}  // namespace

OutputFormats DetectOutputFormats(std::string_view template_source) {
  const auto contains = [&](std::string_view text) {
    return template_source.find(text) != std::string_view::npos;
  };
  OutputFormats formats;
  const auto rule = std::ranges::find_if(kDetectionRules, [&](const DetectionRule& one) {
    return contains(one.first) && contains(one.second);
  });
  if (rule != std::ranges::end(kDetectionRules)) formats.tools = rule->format;
  for (const auto& [format, name] : kReasoningFormatNames) {
    if (format != ReasoningFormat::kNone && contains(ReasoningTagsOf(format).end)) {
      formats.reasoning = format;
    }
  }
  return formats;
}

ReasoningTags ReasoningTagsOf(ReasoningFormat format) {
  switch (format) {
    case ReasoningFormat::kNone:
      return {};
    case ReasoningFormat::kThink:
      return {.begin = "<think>", .end = "</think>"};
    case ReasoningFormat::kSeedThink:
      return {.begin = "<seed:think>", .end = "</seed:think>"};
  }
  return {};
}

bool BeginsInReasoning(std::string_view prompt, std::span<const ByteRange> literal_ranges,
                       ReasoningFormat format) {
  if (format == ReasoningFormat::kNone) return false;
  const ReasoningTags tags = ReasoningTagsOf(format);
  const size_t last_end = prompt.rfind(tags.end);
  const size_t searched_begin = last_end == std::string_view::npos ? 0 : last_end + tags.end.size();
  auto range = literal_ranges.rbegin();
  for (size_t begin = prompt.rfind(tags.begin);
       begin != std::string_view::npos && begin >= searched_begin;
       begin = begin == 0 ? std::string_view::npos : prompt.rfind(tags.begin, begin - 1)) {
    while (range != literal_ranges.rend() && range->begin >= begin + tags.begin.size()) ++range;
    if (range == literal_ranges.rend() || range->end <= begin) return true;
  }
  return false;
}

}  // namespace incipit
