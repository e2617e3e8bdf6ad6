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

// Splits the text of one output into reasoning, ordinary text (content) and tool calls. The text
// may arrive in pieces of any size. The time is linear in the length of the text.
//
// - Reasoning can only be at the beginning of the output. Reasoning without a closing tag extends
//   to the end of the output.
// - A malformed or incomplete tool call becomes content. A tool call of more than kToolCallBytesMax
//   bytes also becomes content.
// - A tool call at the end of the output needs no closing marker.
// - White space around reasoning and around tool calls is removed. Exception: white space after a
//   tool call stays if content precedes and follows the call.
// - Push() returns text immediately. Exceptions are text that may be a tool call or the beginning
//   of a marker, and white space that may be removed later.
class OutputParser {
 public:
  // Creates a parser. If `has_tools` is false, the output has no tool calls. If
  // `begins_in_reasoning` is true, the output begins with reasoning, without an opening tag.
  // `strings`, the set of parameters that are strings, may be null. REQUIRES: `strings` outlives
  // the parser.
  OutputParser(ToolFormat tools, ReasoningFormat reasoning, bool begins_in_reasoning,
               bool has_tools, const StringParameters* strings = nullptr);

  // Reads `text`, the next piece of the output. Returns the content, reasoning and tool calls that
  // later pieces cannot change.
  ParsedText Push(std::string_view text);

  // Ends the output. Returns the remaining content, reasoning and tool calls. REQUIRES: no function
  // of the object is called afterwards.
  ParsedText Finish();

 private:
  enum class Mode : uint8_t { kStart, kReasoning, kContent, kCall };

  void Read(char byte, ParsedText& out);
  void ReadStart(char byte, ParsedText& out);
  void ReadReasoning(char byte, ParsedText& out);
  void ReadContent(char byte, ParsedText& out);
  void ReadCall(char byte, ParsedText& out);

  // Sets `mode_` to `mode`, and parses the bytes of `held_` again in this mode.
  void ReadHeldAs(Mode mode, ParsedText& out);
  // Appends `byte` to `held_`. Returns the number of bytes at the beginning of `held_` that are
  // certainly ordinary text. All other bytes may belong to `marker` or to the white space before
  // `marker`.
  size_t Hold(char byte, TextMatcher& marker);
  // Returns true if `byte` may be the first byte of a tool call in a format without a marker.
  bool BeginsCall(char byte) const;
  // Starts to read a tool call. The first `begin_size` bytes of `held_` end with the opening
  // marker. In a format without a marker, these bytes end with the first byte of the tool call.
  void BeginCall(size_t begin_size);
  // Moves the completed tool calls from `reader_` to `out`, and removes their text from `held_`.
  void TakeCalls(ParsedText& out);
  // Moves the text in `held_` to the content of `out`, because the text is not a tool call.
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
  // Bytes that Push() has read but not yet returned: white space, then the beginning of a tag, of a
  // marker or of a tool call.
  std::string held_;
  size_t num_spaces_ = 0;  // number of white space characters at the beginning of `held_`
  TextMatcher reasoning_end_;
  TextMatcher call_marker_;
  std::unique_ptr<CallReader> reader_;
  // `begin_size` of the last BeginCall(). 0 after TakeCalls() has removed these bytes from `held_`.
  size_t call_begin_size_ = 0;
  bool has_reasoning_ = false;  // true after the parser has returned reasoning
  bool has_content_ = false;    // true after the parser has returned content
  bool has_calls_ = false;      // true after the parser has returned a tool call
  // True from the end of reasoning or of a tool call until the next content (ordinary text).
  bool is_after_block_ = false;
};

}  // namespace incipit
