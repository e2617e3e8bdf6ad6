// Reads tool calls in a section of the output. A section begins and ends with a marker. Each call
// in the section also begins and ends with a marker.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/chat/call_reader.h"
#include "text/chat/text_matcher.h"

namespace incipit {

struct SectionMarkers {
  std::string_view begin, end;            // markers around all calls
  std::string_view call_begin, call_end;  // markers around each call
};
inline constexpr SectionMarkers kDeepSeekSection = {.begin = "<｜tool▁calls▁begin｜>",
                                                    .end = "<｜tool▁calls▁end｜>",
                                                    .call_begin = "<｜tool▁call▁begin｜>",
                                                    .call_end = "<｜tool▁call▁end｜>"};
inline constexpr SectionMarkers kKimiSection = {.begin = "<|tool_calls_section_begin|>",
                                                .end = "<|tool_calls_section_end|>",
                                                .call_begin = "<|tool_call_begin|>",
                                                .call_end = "<|tool_call_end|>"};

// Returns the call in the text `text` between the markers of a call of DeepSeek V3, R1 or V3.1.
std::optional<ToolCall> ReadDeepSeekCall(std::string_view text);

// Returns the call in the text `text` between the markers of a call of Kimi K2.
std::optional<ToolCall> ReadKimiCall(std::string_view text);

// Reads the text after SectionMarkers::begin. A call is complete at SectionMarkers::call_end,
// before the section ends.
class SectionReader final : public CallReader {
 public:
  using ReadCall = std::optional<ToolCall> (*)(std::string_view text);

  // `read_call` converts the text between the markers of a call. REQUIRES: the memory of `markers`
  // outlives the reader.
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
  std::string text_;  // text of the current call, or the first bytes of a marker
};

}  // namespace incipit
