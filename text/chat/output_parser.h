// Splits the text of one output into reasoning, content and tool calls. The text arrives in pieces.
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

// Parses the text of one output. The concatenated results of Push() and Finish() do not depend on
// the pieces in which the text arrives. The time is linear in the length of the text.
//
// - The parser recognises reasoning only at the beginning of the output. If the reasoning has no
//   closing tag, the whole output is reasoning.
// - The parser returns a tool call only after the call is complete. If text begins like a call but
//   is malformed, incomplete, or longer than kToolCallBytesMax, the text becomes content.
// - A call without its closing marker is complete at the end of the output.
// - The parser removes white space at the beginning and the end of closed reasoning, between
//   reasoning and content, and around calls. If content precedes and follows a call, the white
//   space between the call and the following content stays.
// - The parser holds back the text of a possible call, the first bytes of a possible marker, and
//   white space that the parser may have to remove. The parser returns all other text immediately.
class OutputParser {
 public:
  // If `has_tools` is false, or if `tools` is kNone, the output contains no tool calls. If
  // `begins_in_reasoning` is true, the output begins inside reasoning (BeginsInReasoning()).
  // `strings` may be null. REQUIRES: `strings` outlives the OutputParser.
  OutputParser(ToolFormat tools, ReasoningFormat reasoning, bool begins_in_reasoning,
               bool has_tools, const StringParameters* strings = nullptr);

  // Adds `text`, the next piece of the output. Returns the text and the calls that are complete.
  ParsedText Push(std::string_view text);

  // Ends the output. Returns the text and the calls that were held back. REQUIRES: Push() and
  // Finish() are not called afterwards.
  ParsedText Finish();

 private:
  enum class Mode : uint8_t { kStart, kReasoning, kContent, kCall };

  void Read(char byte, ParsedText& out);
  void ReadStart(char byte, ParsedText& out);
  void ReadReasoning(char byte, ParsedText& out);
  void ReadContent(char byte, ParsedText& out);
  void ReadCall(char byte, ParsedText& out);

  // Reads the text of `held_` again, in the mode `mode`.
  void ReadHeldAs(Mode mode, ParsedText& out);
  // Adds `byte` to `held_`. Returns the number of bytes at the beginning of `held_` that the parser
  // can send, because a marker or the white space before a marker can only begin after these bytes.
  size_t Hold(char byte, TextMatcher& marker);
  // Returns true if a call may begin with `byte`, without a marker.
  bool BeginsCall(char byte) const;
  // Starts to read a call. `begin_size` is the number of bytes of `held_` up to the end of the
  // marker or of the first byte of the call.
  void BeginCall(size_t begin_size);
  // Appends the calls that `reader_` has completed, and removes their text from `held_`.
  void TakeCalls(ParsedText& out);
  // Ends the current call without a result: the text in `held_` becomes content.
  void FailCall(ParsedText& out);
  // Moves the first `size` bytes of `held_` to the content.
  void SendContent(size_t size, ParsedText& out);
  // Moves the first `size` bytes of `held_` to the reasoning.
  void SendReasoning(size_t size, ParsedText& out);

  const ToolFormat tools_;
  const ReasoningTags tags_;
  const bool begins_in_reasoning_;
  const CallBegin call_begin_;
  const StringParameters* const strings_;

  Mode mode_;
  // Text that the parser has read and not yet returned: white space, followed by the first bytes of
  // a tag or of a marker, or by the text of the current call.
  std::string held_;
  size_t num_spaces_ = 0;  // number of white space characters at the beginning of `held_`
  TextMatcher reasoning_end_;
  TextMatcher call_marker_;
  std::unique_ptr<CallReader> reader_;  // reader of the current call
  // Number of bytes of `held_` up to the end of the marker or of the first byte of the current
  // call. The value is 0 after a call that may be followed by another call without a marker.
  size_t call_begin_size_ = 0;
  bool has_reasoning_ = false;  // True if the parser has returned reasoning.
  bool has_content_ = false;    // True if the parser has returned content.
  bool has_calls_ = false;      // True if the parser has returned a call.
  // True if the parser has returned no content since the end of the reasoning or the latest call.
  bool is_after_block_ = false;
};

}  // namespace incipit
