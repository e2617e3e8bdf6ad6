// Formats in which models write tool calls and reasoning, and the detection of a model's formats.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/enum_names.h"
#include "text/tokenizer/tokenizer.h"

namespace incipit {

// The format in which a model writes tool calls. NAME, KEY, VALUE and ARGUMENTS (a JSON object)
// below are placeholders. A tool call without a marker (kLlamaJson, kPythonic, kJson) must be at
// the beginning of the output, or directly after reasoning or another tool call.
enum class ToolFormat : uint8_t {
  kNone,  // The output text contains no tool calls.
  // A tool call is <tool_call>{"name": NAME, "arguments": ARGUMENTS}</tool_call>.
  kHermes,
  // A tool call is {"name": NAME, "parameters": ARGUMENTS}, optionally after <|python_tag|>.
  kLlamaJson,
  // All tool calls are one list [NAME(KEY=VALUE, ...), ...] with Python literals as values.
  kPythonic,
  // The tool calls are [TOOL_CALLS][{"name": NAME, "arguments": ARGUMENTS}, ...] or
  // [TOOL_CALLS]NAME[ARGS]ARGUMENTS.
  kMistral,
  // DeepSeek V3, R1 and V3.1 write all tool calls between <｜tool▁calls▁begin｜> and
  // <｜tool▁calls▁end｜>.
  kDeepSeek,
  // Kimi K2 writes all tool calls between <|tool_calls_section_begin|> and
  // <|tool_calls_section_end|>.
  kKimi,
  // A tool call is
  // <tool_call><function=NAME><parameter=KEY>VALUE</parameter></function></tool_call>.
  kQwenXml,
  // A tool call begins with
  // <seed:tool_call><function=NAME><parameter=KEY>VALUE</parameter></function>.
  kSeedXml,
  // A tool call begins with <minimax:tool_call><invoke name="NAME"><parameter name="KEY">VALUE.
  kMiniMaxXml,
  // A tool call is <tool_call>NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value></tool_call>.
  kGlm,
  // All tool calls are one list <TOOLCALL>[{"name": NAME, "arguments": ARGUMENTS}, ...]</TOOLCALL>.
  kNemotron,
  // All tool calls are one list <|tool_call|>[{"name": NAME, "arguments": ARGUMENTS}, ...].
  kGranite,
  // A tool call is {"name": NAME, "arguments": ARGUMENTS}. Several tool calls are a list of
  // objects.
  kJson,
};

// The tags that a model writes around its reasoning, at the beginning of the output.
enum class ReasoningFormat : uint8_t {
  kNone,       // The output text contains no reasoning.
  kThink,      // The model writes <think>, the reasoning, and </think>.
  kSeedThink,  // The model writes <seed:think>, the reasoning, and </seed:think>.
};

inline constexpr EnumName<ToolFormat> kToolFormatNames[] = {
    {ToolFormat::kNone, "none"},
    {ToolFormat::kHermes, "hermes"},
    {ToolFormat::kLlamaJson, "llama_json"},
    {ToolFormat::kPythonic, "pythonic"},
    {ToolFormat::kMistral, "mistral"},
    {ToolFormat::kDeepSeek, "deepseek"},
    {ToolFormat::kKimi, "kimi"},
    {ToolFormat::kQwenXml, "qwen_xml"},
    {ToolFormat::kSeedXml, "seed_xml"},
    {ToolFormat::kMiniMaxXml, "minimax_xml"},
    {ToolFormat::kGlm, "glm"},
    {ToolFormat::kNemotron, "nemotron"},
    {ToolFormat::kGranite, "granite"},
    {ToolFormat::kJson, "json"}};

inline constexpr EnumName<ReasoningFormat> kReasoningFormatNames[] = {
    {ReasoningFormat::kNone, "none"},
    {ReasoningFormat::kThink, "think"},
    {ReasoningFormat::kSeedThink, "seed_think"}};

struct OutputFormats {
  ToolFormat tools = ToolFormat::kNone;
  ReasoningFormat reasoning = ReasoningFormat::kNone;
};

// Returns the formats that the chat template with the source text `template_source` uses. The tool
// format is the first format of the following list whose strings all occur in `template_source`. If
// there is none, the tool format is kNone.
//
// - kMistral: [TOOL_CALLS]
// - kDeepSeek: <｜tool▁calls▁begin｜> and <｜tool▁sep｜>
// - kKimi: <|tool_calls_section_begin|> and <|tool_call_argument_begin|>
// - kSeedXml: <seed:tool_call> and <function=
// - kMiniMaxXml: <minimax:tool_call> and <invoke name=
// - kGlm: <tool_call> and <arg_key>
// - kQwenXml: <tool_call> and <function=
// - kNemotron: <TOOLCALL>
// - kGranite: <|tool_call|>
// - kHermes: <tool_call>
// - kPythonic: [func_name1(params_name1=
// - kLlamaJson: {"name": function name, "parameters":
//
// The reasoning format is the format whose closing tag, such as </think>, occurs in
// `template_source`. If no closing tag occurs, the reasoning format is kNone.
OutputFormats DetectOutputFormats(std::string_view template_source);

struct ReasoningTags {
  std::string_view begin, end;
};
// Returns the opening and the closing tag of reasoning in the format `format`. Both tags are empty
// if `format` is kNone.
ReasoningTags ReasoningTagsOf(ReasoningFormat format);

// Returns true if the prompt ends after an opening tag of reasoning that is not closed, so that the
// output begins with reasoning. Ignores opening tags in `literal_ranges`, the byte ranges of
// `prompt` that come from the request.
bool BeginsInReasoning(std::string_view prompt, std::span<const ByteRange> literal_ranges,
                       ReasoningFormat format);

}  // namespace incipit
