// Splits the text of one output into reasoning, ordinary text (content) and tool calls, while the
// text arrives in pieces.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat/call_reader.h"
#include "text/chat/string_parameters.h"
#include "text/chat/text_matcher.h"
#include "text/chat/tool_call.h"
#include "text/chat/tool_format.h"

namespace incipit {

struct ParsedText {
  std::string reasoning = {};
  std::string content = {};
  std::vector<ToolCall> calls = {};

  bool operator==(const ParsedText&) const = default;
};

// Splits the text of one output into reasoning, ordinary text (content) and tool calls. The result
// does not depend on the pieces in which the text arrives. The time is linear in the length of the
// text.
//
// - Reasoning can only be at the beginning of the output. Reasoning without a closing tag extends
//   to the end of the output.
// - A malformed or incomplete tool call becomes content. A tool call of more than kToolCallBytesMax
//   bytes also becomes content.
// - A tool call at the end of the output needs no closing marker.
// - White space around closed reasoning and around tool calls is removed. Exception: white space
//   after a tool call stays if content precedes and follows the call.
// - Push() returns text immediately, except text that may be a tool call or the beginning of a
//   marker, and white space that may be removed later.
class OutputParser {
 public:
  // If `has_tools` is false, or if `tools` is kNone, the output has no tool calls. If
  // `begins_in_reasoning` is true, the output begins with reasoning, without an opening tag.
  // `strings` (parameters that are strings) may be null. REQUIRES: `strings` outlives the
  // OutputParser.
  OutputParser(ToolFormat tools, ReasoningFormat reasoning, bool begins_in_reasoning,
               bool has_tools, const StringParameters* strings = nullptr);

  // Reads `text`, the next piece of the output. Returns the content, reasoning and tool calls that
  // are now certain.
  ParsedText Push(std::string_view text);

  // Called at the end of the output. Returns the remaining content, reasoning and tool calls.
  // REQUIRES: neither Push() nor Finish() is called afterwards.
  ParsedText Finish();

 private:
  enum class Mode : uint8_t { kStart, kReasoning, kContent, kCall };

  void Read(char byte, ParsedText& out);
  void ReadStart(char byte, ParsedText& out);
  void ReadReasoning(char byte, ParsedText& out);
  void ReadContent(char byte, ParsedText& out);
  void ReadCall(char byte, ParsedText& out);

  // Sets the mode to `mode`, and reads the text of `held_` again.
  void ReadHeldAs(Mode mode, ParsedText& out);
  // Appends `byte` to `held_`. Returns the number of bytes at the beginning of `held_` that can be
  // sent, because they are neither a part of `marker` nor white space before `marker`.
  size_t Hold(char byte, TextMatcher& marker);
  // Returns true if `byte` is the first byte of a possible tool call without a marker.
  bool BeginsCall(char byte) const;
  // Starts to read a tool call. `begin_size` is the number of bytes of `held_` up to and including
  // the call's opening marker or first byte.
  void BeginCall(size_t begin_size);
  // Appends the tool calls that `reader_` has completed to `out`, and removes the text of these
  // calls from `held_`.
  void TakeCalls(ParsedText& out);
  // Called if the text in `held_` is not a tool call. Returns this text as content.
  void FailCall(ParsedText& out);
  // Moves the first `size` bytes of `held_` to the content of `out`.
  void SendContent(size_t size, ParsedText& out);
  // Moves the first `size` bytes of `held_` to the reasoning of `out`.
  void SendReasoning(size_t size, ParsedText& out);

  const ToolFormat tools_;
  const ReasoningTags tags_;
  const bool begins_in_reasoning_;
  const CallBegin call_begin_;
  const StringParameters* const strings_;

  Mode mode_;
  // Text that Push() has read and not returned: white space, then the beginning of a tag, of a
  // marker or of a tool call.
  std::string held_;
  size_t num_spaces_ = 0;  // number of white space characters at the beginning of `held_`
  TextMatcher reasoning_end_;
  TextMatcher call_marker_;
  std::unique_ptr<CallReader> reader_;  // reader of the tool call in `held_`
  // Number of bytes of `held_` up to the end of the tool call's opening marker (or first byte). 0
  // after TakeCalls() has removed this beginning from `held_`.
  size_t call_begin_size_ = 0;
  bool has_reasoning_ = false;  // True after the parser has returned reasoning.
  bool has_content_ = false;    // True after the parser has returned content (ordinary text).
  bool has_calls_ = false;      // True after the parser has returned a tool call.
  // True between the end of reasoning or of a tool call and the next content (ordinary text).
  bool is_after_block_ = false;
};

}  // namespace incipit
