#include "text/chat/section_reader.h"

#include <utility>

namespace incipit {

std::optional<ToolCall> ReadDeepSeekCall(std::string_view text) {
  constexpr std::string_view kSeparator = "<｜tool▁sep｜>";
  constexpr std::string_view kFenceBegin = "\n```json\n", kFenceEnd = "\n```";
  const size_t separator = text.find(kSeparator);
  if (separator == std::string_view::npos) return std::nullopt;
  const std::string_view before = TrimSpace(text.substr(0, separator));
  const std::string_view after = text.substr(separator + kSeparator.size());
  // DeepSeek V3.1 writes the name of the tool, <｜tool▁sep｜>, and the arguments. DeepSeek V3 and
  // R1 write the word "function", <｜tool▁sep｜>, the name of the tool, and the arguments in a
  // Markdown code block.
  const size_t fence = after.find(kFenceBegin);
  if (fence == std::string_view::npos) return MakeToolCall(before, after);
  std::string_view arguments = TrimSpace(after.substr(fence + kFenceBegin.size()));
  if (before != "function" || !arguments.ends_with(kFenceEnd)) return std::nullopt;
  arguments.remove_suffix(kFenceEnd.size());
  return MakeToolCall(TrimSpace(after.substr(0, fence)), arguments);
}

std::optional<ToolCall> ReadKimiCall(std::string_view text) {
  constexpr std::string_view kSeparator = "<|tool_call_argument_begin|>";
  constexpr std::string_view kPrefix = "functions.";
  const size_t separator = text.find(kSeparator);
  if (separator == std::string_view::npos) return std::nullopt;
  // Kimi K2 writes the name of the tool as functions.NAME:INDEX, for example functions.add:0.
  std::string_view name = TrimSpace(text.substr(0, separator));
  if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  return MakeToolCall(name.substr(0, name.rfind(':')), text.substr(separator + kSeparator.size()));
}

CallReader::State SectionReader::Read(char byte) {
  if (!in_call_) return ReadMarker(byte);
  text_ += byte;
  if (!call_end_.Read(byte)) return State::kReading;
  text_.resize(text_.size() - markers_.call_end.size());
  std::optional<ToolCall> call = read_call_(std::exchange(text_, {}));
  if (!call) return State::kFailed;
  in_call_ = false;
  has_calls_ = true;
  return Add(std::vector<ToolCall>{*std::move(call)}, State::kCalls);
}

CallReader::State SectionReader::ReadMarker(char byte) {
  if (text_.empty() && IsOutputSpace(byte)) return State::kReading;
  text_ += byte;
  if (text_ == markers_.call_begin) {
    text_.clear();
    call_end_.Reset();
    in_call_ = true;
    return State::kReading;
  }
  if (has_calls_ && text_ == markers_.end) return State::kDone;
  const bool fits =
      markers_.call_begin.starts_with(text_) || (has_calls_ && markers_.end.starts_with(text_));
  return fits ? State::kReading : State::kFailed;
}

}  // namespace incipit
