#include "text/chat/output_parser.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace incipit {
namespace {

size_t NumSpaces(std::string_view text) {
  return static_cast<size_t>(std::find_if_not(text.begin(), text.end(), IsOutputSpace) -
                             text.begin());
}

bool Contains(std::string_view bytes, char byte) {
  return bytes.find(byte) != std::string_view::npos;
}

}  // namespace

OutputParser::OutputParser(ToolFormat tools, ReasoningFormat reasoning, bool begins_in_reasoning,
                           bool has_tools, const StringParameters* strings)
    : tools_(has_tools ? tools : ToolFormat::kNone),
      tags_(ReasoningTagsOf(reasoning)),
      begins_in_reasoning_(begins_in_reasoning),
      call_begin_(CallBeginOf(tools_)),
      strings_(strings),
      mode_(reasoning == ReasoningFormat::kNone ? Mode::kContent : Mode::kStart),
      reasoning_end_(tags_.end),
      call_marker_(call_begin_.marker) {}

ParsedText OutputParser::Push(std::string_view text) {
  ParsedText out;
  for (const char byte : text) Read(byte, out);
  return out;
}

ParsedText OutputParser::Finish() {
  ParsedText out;
  if (mode_ == Mode::kStart) {
    ReadHeldAs(begins_in_reasoning_ ? Mode::kReasoning : Mode::kContent, out);
  }
  if (mode_ == Mode::kCall) {
    reader_->End();
    TakeCalls(out);
    mode_ = Mode::kContent;
  }
  if (mode_ == Mode::kReasoning) {
    SendReasoning(held_.size(), out);
  } else if (!is_after_block_ || NumSpaces(held_) < held_.size()) {
    SendContent(held_.size(), out);
  }
  return out;
}

void OutputParser::Read(char byte, ParsedText& out) {
  switch (mode_) {
    case Mode::kStart:
      return ReadStart(byte, out);
    case Mode::kReasoning:
      return ReadReasoning(byte, out);
    case Mode::kContent:
      return ReadContent(byte, out);
    case Mode::kCall:
      return ReadCall(byte, out);
  }
}

void OutputParser::ReadStart(char byte, ParsedText& out) {
  if (held_.size() == num_spaces_ && IsOutputSpace(byte)) ++num_spaces_;
  held_ += byte;
  const std::string_view text = std::string_view(held_).substr(num_spaces_);
  if (text == tags_.begin) {
    held_.clear();
    num_spaces_ = 0;
    mode_ = Mode::kReasoning;
  } else if (!tags_.begin.starts_with(text)) {
    ReadHeldAs(begins_in_reasoning_ ? Mode::kReasoning : Mode::kContent, out);
  }
}

void OutputParser::ReadHeldAs(Mode mode, ParsedText& out) {
  mode_ = mode;
  num_spaces_ = 0;
  for (const char byte : std::exchange(held_, {})) Read(byte, out);
}

void OutputParser::ReadReasoning(char byte, ParsedText& out) {
  if (!has_reasoning_ && held_.empty() && IsOutputSpace(byte)) return;
  SendReasoning(Hold(byte, reasoning_end_), out);
  if (reasoning_end_.length() < tags_.end.size()) return;
  held_.clear();
  num_spaces_ = 0;
  mode_ = Mode::kContent;
  is_after_block_ = true;
}

void OutputParser::ReadContent(char byte, ParsedText& out) {
  if (BeginsCall(byte)) {
    BeginCall(held_.size() + 1);
    return ReadCall(byte, out);
  }
  size_t size = Hold(byte, call_marker_);
  // Hold back white space only in two cases: if a tool call may follow the white space, or if the
  // white space follows reasoning or a tool call.
  const bool may_begin_call =
      !call_begin_.marker.empty() || (!call_begin_.first_bytes.empty() && !has_content_);
  if (!may_begin_call && !is_after_block_) size = held_.size();
  SendContent(size, out);
  if (!call_begin_.marker.empty() && call_marker_.length() == call_begin_.marker.size()) {
    BeginCall(held_.size());
  }
}

size_t OutputParser::Hold(char byte, TextMatcher& marker) {
  const bool follows_spaces = held_.size() == num_spaces_;
  held_ += byte;
  marker.Read(byte);
  if (held_.size() == num_spaces_ + marker.length()) return 0;
  if (!IsOutputSpace(byte)) return held_.size() - marker.length();
  // `byte` is white space, which no marker contains. Therefore all held bytes before `byte` are
  // ordinary text.
  if (!follows_spaces) return held_.size() - 1;
  ++num_spaces_;
  return 0;
}

bool OutputParser::BeginsCall(char byte) const {
  if (has_content_ && !is_after_block_) return false;
  if (held_.size() != num_spaces_) return false;
  return Contains(call_begin_.first_bytes, byte) ||
         (call_begin_.separator != 0 && byte == call_begin_.separator && has_calls_);
}

void OutputParser::BeginCall(size_t begin_size) {
  call_begin_size_ = begin_size;
  call_marker_.Reset();
  reader_ = MakeCallReader(tools_, strings_);
  mode_ = Mode::kCall;
}

void OutputParser::ReadCall(char byte, ParsedText& out) {
  held_ += byte;
  switch (reader_->Read(byte)) {
    case CallReader::State::kReading:
      if (held_.size() - num_spaces_ > kToolCallBytesMax) FailCall(out);
      return;
    case CallReader::State::kCalls:
      return TakeCalls(out);
    case CallReader::State::kDone:
      TakeCalls(out);
      held_.clear();
      num_spaces_ = 0;
      mode_ = Mode::kContent;
      return;
    case CallReader::State::kFailed:
      held_.pop_back();
      FailCall(out);
      return Read(byte, out);
  }
}

void OutputParser::TakeCalls(ParsedText& out) {
  std::vector<ToolCall> calls = reader_->TakeCalls();
  if (calls.empty()) return;
  std::move(calls.begin(), calls.end(), std::back_inserter(out.calls));
  held_.clear();
  num_spaces_ = 0;
  call_begin_size_ = 0;
  has_calls_ = true;
  is_after_block_ = true;
}

void OutputParser::FailCall(ParsedText& out) {
  mode_ = Mode::kContent;
  num_spaces_ = 0;
  const std::string text = std::exchange(held_, {});
  // A marker may begin in the last bytes of `text`. Pass these bytes to Read() again. Their number
  // is less than the length of the marker.
  const size_t marker_size = std::max<size_t>(call_begin_.marker.size(), 1);
  size_t sent = text.size() - std::min(text.size() - call_begin_size_, marker_size - 1);
  if (NumSpaces(text) >= sent) sent = 0;
  held_ = text.substr(0, sent);
  SendContent(sent, out);
  for (const char byte : std::string_view(text).substr(sent)) Read(byte, out);
}

void OutputParser::SendContent(size_t size, ParsedText& out) {
  if (size == 0) return;
  const size_t skipped = is_after_block_ && !has_content_ ? NumSpaces(held_) : 0;
  out.content.append(held_, skipped, size - skipped);
  held_.erase(0, size);
  num_spaces_ = NumSpaces(held_);
  has_content_ = true;
  is_after_block_ = false;
}

void OutputParser::SendReasoning(size_t size, ParsedText& out) {
  if (size == 0) return;
  out.reasoning.append(held_, 0, size);
  held_.erase(0, size);
  num_spaces_ = NumSpaces(held_);
  has_reasoning_ = true;
}

}  // namespace incipit
