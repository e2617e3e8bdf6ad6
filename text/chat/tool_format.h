// Formats in which models write tool calls and reasoning, and the detection of a model's formats.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/enum_names.h"
#include "text/tokenizer/tokenizer.h"

namespace incipit {

// The format in which a model writes tool calls. In the comment of each value, NAME, KEY and VALUE
// are strings, and ARGUMENTS is a JSON object. A tool call without a marker (kLlamaJson, kPythonic,
// kJson) must be at the beginning of the output, or directly after reasoning or another tool call.
enum class ToolFormat : uint8_t {
  kNone,       // The output text contains no tool calls.
  kHermes,     // <tool_call>{"name": NAME, "arguments": ARGUMENTS}</tool_call>
  kLlamaJson,  // {"name": NAME, "parameters": ARGUMENTS}, optionally after <|python_tag|>
  kPythonic,   // [NAME(KEY=VALUE, ...), ...] with Python literals as values
  // [TOOL_CALLS][{"name": NAME, "arguments": ARGUMENTS}, ...] or [TOOL_CALLS]NAME[ARGS]ARGUMENTS
  kMistral,
  kDeepSeek,  // DeepSeek V3, R1, V3.1: <｜tool▁calls▁begin｜> tool calls <｜tool▁calls▁end｜>
  kKimi,        // Kimi K2: <|tool_calls_section_begin|> tool calls <|tool_calls_section_end|>
  kQwenXml,     // <tool_call><function=NAME><parameter=KEY>VALUE</parameter></function></tool_call>
  kSeedXml,     // <seed:tool_call><function=NAME><parameter=KEY>VALUE</parameter></function> ...
  kMiniMaxXml,  // <minimax:tool_call><invoke name="NAME"><parameter name="KEY">VALUE ...
  kGlm,         // <tool_call>NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value></tool_call>
  kNemotron,    // <TOOLCALL>[{"name": NAME, "arguments": ARGUMENTS}, ...]</TOOLCALL>
  kGranite,     // <|tool_call|>[{"name": NAME, "arguments": ARGUMENTS}, ...]
  kJson,        // {"name": NAME, "arguments": ARGUMENTS}, or a list of such objects
};

// The tags that a model writes around its reasoning, at the beginning of the output.
enum class ReasoningFormat : uint8_t {
  kNone,       // The output text contains no reasoning.
  kThink,      // <think> ... </think>
  kSeedThink,  // <seed:think> ... </seed:think>
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
