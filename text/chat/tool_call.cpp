#include "text/chat/tool_call.h"

#include <algorithm>
#include <utility>

#include "base/json/json.h"
#include "text/unicode/utf8.h"

namespace incipit {
namespace {

constexpr JsonLimits kLimits = {.bytes_max = kToolCallBytesMax, .depth_max = kToolCallDepthMax};

bool IsJson(std::string_view text) { return ParseJson(text, kLimits).ok(); }

// Reads a valid JSON text from left to right: its brackets, keys and values.
class ElementReader {
 public:
  // REQUIRES: `text` is valid JSON without white space outside strings.
  explicit ElementReader(std::string_view text) : text_(text) {}

  char next() const { return text_[position_]; }
  void Skip() { ++position_; }

  // Returns the JSON text of the next value or key, and skips this text.
  std::string_view Value() {
    const size_t begin = position_;
    if (next() == '[' || next() == '{') {
      JsonExtent extent;
      while (extent.Read(text_[position_++]) == JsonExtent::State::kOpen) {
      }
    } else if (next() == '"') {
      while (text_[++position_] != '"') position_ += text_[position_] == '\\' ? 1 : 0;
      ++position_;
    } else {
      position_ = std::min(text_.find_first_of(",]}", position_), text_.size());
    }
    return text_.substr(begin, position_ - begin);
  }

 private:
  std::string_view text_;
  size_t position_ = 0;
};

// Returns the content of `text`, a valid JSON string with quotation marks.
std::string StringOf(std::string_view text) { return ParseJson(text, kLimits)->get<std::string>(); }

// Converts the JSON object `object` to a tool call. Returns nullopt if `object` is not a tool call.
// REQUIRES: `object` begins with '{' and is valid JSON without white space outside strings.
std::optional<ToolCall> ReadJsonCall(std::string_view object) {
  std::string_view name, arguments, parameters;
  ElementReader reader(object);
  reader.Skip();
  while (reader.next() != '}') {
    if (reader.next() == ',') reader.Skip();
    const std::string_view key = reader.Value();
    reader.Skip();
    const std::string_view value = reader.Value();
    if (key == R"("name")") name = value;
    if (key == R"("arguments")") arguments = value;
    if (key == R"("parameters")") parameters = value;
  }
  if (!name.starts_with('"') || (!arguments.empty() && !parameters.empty())) return std::nullopt;
  return MakeToolCall(StringOf(name), arguments.empty() ? parameters : arguments);
}

}  // namespace

std::string_view TrimSpace(std::string_view text) {
  while (!text.empty() && IsOutputSpace(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsOutputSpace(text.back())) text.remove_suffix(1);
  return text;
}

bool IsToolNameByte(char c) {
  constexpr std::string_view kExcluded = "<>()[]{}\"',=\x7F";
  return static_cast<unsigned char>(c) > ' ' && kExcluded.find(c) == std::string_view::npos;
}

std::optional<ToolCall> MakeToolCall(std::string_view name, std::string_view arguments) {
  if (name.empty() || name.size() > kToolNameBytesMax || !IsUtf8(name)) return std::nullopt;
  if (!std::all_of(name.begin(), name.end(), IsToolNameByte)) return std::nullopt;
  std::optional<std::string> compact = CompactJson(arguments);
  if (!compact || compact->front() != '{') return std::nullopt;
  return ToolCall{.name = std::string(name), .arguments_json = *std::move(compact)};
}

std::optional<std::vector<ToolCall>> ReadJsonCalls(std::string_view text) {
  const std::optional<std::string> compact = CompactJson(text);
  if (!compact || (compact->front() != '{' && compact->front() != '[')) return std::nullopt;
  std::vector<std::string_view> objects;
  ElementReader reader(*compact);
  if (reader.next() == '{') {
    objects.push_back(*compact);
  } else {
    reader.Skip();
    while (reader.next() != ']') {
      if (reader.next() == ',') reader.Skip();
      objects.push_back(reader.Value());
    }
  }
  std::vector<ToolCall> calls;
  for (const std::string_view object : objects) {
    if (!object.starts_with('{')) return std::nullopt;
    std::optional<ToolCall> call = ReadJsonCall(object);
    if (!call) return std::nullopt;
    calls.push_back(*std::move(call));
  }
  if (calls.empty()) return std::nullopt;
  return calls;
}

std::optional<std::string> JsonStringOf(std::string_view text) {
  if (!IsUtf8(text)) return std::nullopt;
  return nlohmann::json(text).dump();
}

std::optional<std::string> CompactJson(std::string_view text) {
  if (!IsJson(text)) return std::nullopt;
  std::string compact;
  compact.reserve(text.size());
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (!in_string && IsOutputSpace(text[i])) continue;
    compact += text[i];
    if (text[i] == '"') in_string = !in_string;
    if (text[i] == '\\') compact += text[++i];
  }
  return compact;
}

JsonExtent::State JsonExtent::Read(char byte) {
  if (in_string_) {
    // JSON does not allow unescaped control characters in strings.
    if (static_cast<unsigned char>(byte) < ' ') return State::kInvalid;
    in_string_ = is_escaped_ || byte != '"';
    is_escaped_ = !is_escaped_ && byte == '\\';
    return State::kOpen;
  }
  if (byte == '{' || byte == '[') {
    return ++depth_ > kToolCallDepthMax ? State::kInvalid : State::kOpen;
  }
  if (depth_ == 0) return State::kInvalid;
  if (byte == '}' || byte == ']') return --depth_ == 0 ? State::kClosed : State::kOpen;
  in_string_ = byte == '"';
  return State::kOpen;
}

}  // namespace incipit
