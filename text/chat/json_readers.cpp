#include "text/chat/json_readers.h"

#include <utility>

namespace incipit {
namespace {

// Possible beginnings of a tool call in JSON: the opening brace and the first key, without white
// space.
constexpr std::string_view kFirstKeys[] = {R"({"name")", R"({"arguments")", R"({"parameters")",
                                           R"({"type")", R"({"id")"};
constexpr std::string_view kPythonEnd = "<|python_end|>";

// Returns the tool name in `head`, the text between the marker [TOOL_CALLS] and the JSON arguments
// of a Mistral tool call. Returns an empty name if `head` is malformed.
std::string_view MistralName(std::string_view head) {
  constexpr std::string_view kCallId = "[CALL_ID]", kArguments = "[ARGS]";
  const std::string_view name = head.substr(0, head.find('['));
  head.remove_prefix(name.size());
  if (head.empty() || head == kArguments) return name;
  return head.starts_with(kCallId) && head.ends_with(kArguments) ? name : std::string_view();
}

}  // namespace

CallReader::State JsonCallReader::Read(char byte) {
  if (is_closed_) return ReadClosingMarker(byte);
  if (json_.empty()) {
    if (IsOutputSpace(byte)) return State::kReading;
    if (separator_ != 0 && byte == separator_) {
      separator_ = 0;
      return State::kReading;
    }
  }
  json_ += byte;
  if (closing_marker_.empty() && !ReadFirstKey(byte)) return State::kFailed;
  const JsonExtent::State state = extent_.Read(byte);
  if (state == JsonExtent::State::kOpen) return State::kReading;
  if (state == JsonExtent::State::kInvalid) return State::kFailed;
  is_closed_ = true;
  parsed_ = ReadJsonCalls(json_);
  if (!parsed_) return State::kFailed;
  return closing_marker_.empty() ? Add(std::move(parsed_), State::kDone) : State::kReading;
}

bool JsonCallReader::ReadFirstKey(char byte) {
  if (has_first_key_ || IsOutputSpace(byte)) return true;
  beginning_ += byte;
  std::string_view text = beginning_;
  if (text.starts_with('[')) text.remove_prefix(1);
  for (const std::string_view key : kFirstKeys) {
    if (key == text) has_first_key_ = true;
    if (key.starts_with(text)) return true;
  }
  return false;
}

CallReader::State JsonCallReader::ReadClosingMarker(char byte) {
  if (num_matched_ == 0 && IsOutputSpace(byte)) return State::kReading;
  if (byte != closing_marker_[num_matched_]) return State::kFailed;
  if (++num_matched_ < closing_marker_.size()) return State::kReading;
  return Add(std::move(parsed_), State::kDone);
}

void JsonCallReader::End() {
  if (is_closed_) Add(std::move(parsed_), State::kDone);
}

CallReader::State MistralCallReader::Read(char byte) {
  if (json_.empty()) {
    if (head_.empty() && IsOutputSpace(byte)) return State::kReading;
    const bool is_list = head_.empty() && byte == '[';
    if (byte != '{' && !is_list) {
      head_ += byte;
      const bool fits = head_.size() <= 2 * kToolNameBytesMax &&
                        (IsToolNameByte(byte) || byte == '[' || byte == ']');
      return fits ? State::kReading : State::kFailed;
    }
  }
  json_ += byte;
  const JsonExtent::State state = extent_.Read(byte);
  if (state == JsonExtent::State::kOpen) return State::kReading;
  if (state == JsonExtent::State::kInvalid) return State::kFailed;
  if (head_.empty()) return Add(ReadJsonCalls(json_), State::kDone);
  std::optional<ToolCall> call = MakeToolCall(MistralName(head_), json_);
  if (!call) return State::kFailed;
  return Add(std::vector<ToolCall>{*std::move(call)}, State::kDone);
}

CallReader::State PythonCallReader::Read(char byte) {
  text_ += byte;
  if (is_closed_) {
    if (!kPythonEnd.starts_with(text_)) return State::kFailed;
    return text_ == kPythonEnd ? State::kDone : State::kReading;
  }
  const PythonCallsExtent::State state = extent_.Read(byte);
  if (state == PythonCallsExtent::State::kOpen) return State::kReading;
  if (state == PythonCallsExtent::State::kInvalid) return State::kFailed;
  is_closed_ = true;
  return Add(ReadPythonCalls(std::exchange(text_, {})), State::kCalls);
}

}  // namespace incipit
