// Reads tool calls in the formats of DeepSeek and Kimi K2. Opening and closing markers surround
// each tool call, and the section that contains all tool calls.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/chat/call_reader.h"
#include "text/chat/text_matcher.h"

namespace incipit {

struct SectionMarkers {
  std::string_view begin, end;  // markers before and after the section with all tool calls
  std::string_view call_begin, call_end;  // markers before and after each tool call
};
inline constexpr SectionMarkers kDeepSeekSection = {.begin = "<｜tool▁calls▁begin｜>",
                                                    .end = "<｜tool▁calls▁end｜>",
                                                    .call_begin = "<｜tool▁call▁begin｜>",
                                                    .call_end = "<｜tool▁call▁end｜>"};
inline constexpr SectionMarkers kKimiSection = {.begin = "<|tool_calls_section_begin|>",
                                                .end = "<|tool_calls_section_end|>",
                                                .call_begin = "<|tool_call_begin|>",
                                                .call_end = "<|tool_call_end|>"};

// Parses `text`, the text between the markers of a tool call by DeepSeek V3, R1 or V3.1. Returns
// nullopt if `text` has another form.
std::optional<ToolCall> ReadDeepSeekCall(std::string_view text);

// Parses `text`, the text between the markers of a tool call by Kimi K2. Returns nullopt if `text`
// has another form.
std::optional<ToolCall> ReadKimiCall(std::string_view text);

// Reads the section with all tool calls, after its opening marker. TakeCalls() can return a tool
// call before the section ends.
class SectionReader final : public CallReader {
 public:
  using ReadCall = std::optional<ToolCall> (*)(std::string_view text);

  // Creates a reader. `read_call` parses the text between the markers of one tool call. REQUIRES:
  // the strings in `markers` outlive the reader.
  SectionReader(const SectionMarkers& markers, ReadCall read_call)
      : markers_(markers), read_call_(read_call), call_end_(markers.call_end) {}

  State Read(char byte) override;

 private:
  State ReadMarker(char byte);

  SectionMarkers markers_;
  ReadCall read_call_;
  TextMatcher call_end_;
  bool in_call_ = false;
  bool has_calls_ = false;
  std::string text_;  // bytes of the current tool call, or the beginning of a marker
};

}  // namespace incipit
