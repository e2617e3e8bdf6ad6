#include "text/chat/tag_reader.h"

#include <utility>

#include "text/chat/python_calls.h"

namespace incipit {
namespace {

// Reads a text with tags, such as <function=, from left to right.
class TagScanner {
 public:
  explicit TagScanner(std::string_view text) : rest_(text) {}

  std::string_view rest() const { return rest_; }
  void SkipSpace() {
    while (!rest_.empty() && IsOutputSpace(rest_.front())) rest_.remove_prefix(1);
  }
  bool Accept(std::string_view tag) {
    if (!rest_.starts_with(tag)) return false;
    rest_.remove_prefix(tag.size());
    return true;
  }
  // Returns the text before the next `tag`, and skips this text and the tag. Returns nullopt if no
  // `tag` follows.
  std::optional<std::string_view> Until(std::string_view tag) {
    const size_t position = rest_.find(tag);
    if (position == std::string_view::npos) return std::nullopt;
    const std::string_view text = rest_.substr(0, position);
    rest_.remove_prefix(position + tag.size());
    return text;
  }
  // Returns the text before the next `tag`, or the rest of the text if no `tag` follows. Skips the
  // returned text.
  std::string_view Before(std::string_view tag) {
    const std::string_view text = rest_.substr(0, rest_.find(tag));
    rest_.remove_prefix(text.size());
    return text;
  }

 private:
  std::string_view rest_;
};

std::optional<std::string> JsonOfValue(std::string_view value, bool is_string) {
  if (!is_string) {
    std::optional<std::string> json = CompactJson(value);
    // First bytes of Python lists, dictionaries, True, False and None. Only a value with one of
    // these first bytes is parsed as a Python literal. For example, +41 stays a string.
    constexpr std::string_view kFirstBytes = "[{TFN";
    if (!json && !value.empty() && kFirstBytes.find(value.front()) != std::string_view::npos) {
      json = JsonOfPythonLiteral(value);
    }
    if (json && !json->starts_with('"')) return json;
  }
  return JsonStringOf(value);
}

std::string_view WithoutLineFeeds(std::string_view value) {
  if (value.starts_with('\n')) value.remove_prefix(1);
  if (value.ends_with('\n')) value.remove_suffix(1);
  return value;
}

// Parses one argument of a tool call, after its opening tag. Appends the key and the value to
// `json`, the beginning of a JSON object.
bool ReadArgument(TagScanner& scanner, const CallTags& tags, std::string_view name,
                  const StringParameters* strings, std::string& json) {
  const std::optional<std::string_view> key = scanner.Until(tags.key_end);
  if (!key) return false;
  if (!tags.value_begin.empty()) scanner.SkipSpace();
  if (!scanner.Accept(tags.value_begin)) return false;
  std::optional<std::string_view> value = scanner.Until(tags.value_end);
  if (!value) return false;
  if (tags.has_line_feeds) value = WithoutLineFeeds(*value);
  const bool is_string = strings != nullptr && strings->Contains(name, *key);
  const std::optional<std::string> key_json = JsonStringOf(*key);
  const std::optional<std::string> value_json = JsonOfValue(*value, is_string);
  if (!key_json || !value_json) return false;
  if (json.size() > 1) json += ',';
  json.append(*key_json).append(":").append(*value_json);
  return true;
}

std::optional<ToolCall> ReadTaggedCall(TagScanner& scanner, const CallTags& tags,
                                       const StringParameters* strings) {
  if (!scanner.Accept(tags.function_begin)) return std::nullopt;
  const std::optional<std::string_view> name = tags.name_end.empty()
                                                   ? TrimSpace(scanner.Before(tags.parameter_begin))
                                                   : scanner.Until(tags.name_end);
  if (!name) return std::nullopt;
  std::string json = "{";
  for (scanner.SkipSpace(); scanner.Accept(tags.parameter_begin); scanner.SkipSpace()) {
    if (!ReadArgument(scanner, tags, *name, strings, json)) return std::nullopt;
  }
  if (!scanner.Accept(tags.function_end)) return std::nullopt;
  return MakeToolCall(*name, json + '}');
}

}  // namespace

std::optional<std::vector<ToolCall>> ReadTaggedCalls(std::string_view text, const CallTags& tags,
                                                     const StringParameters* strings) {
  TagScanner scanner(TrimSpace(text));
  std::vector<ToolCall> calls;
  do {
    std::optional<ToolCall> call = ReadTaggedCall(scanner, tags, strings);
    if (!call) return std::nullopt;
    calls.push_back(*std::move(call));
    scanner.SkipSpace();
  } while (!tags.function_end.empty() && !scanner.rest().empty());
  // If the format has no tag at the end of a tool call, `text` must contain exactly one tool call.
  if (!scanner.rest().empty()) return std::nullopt;
  return calls;
}

CallReader::State TagReader::Read(char byte) {
  if (!has_begun_ && !ReadBeginning(byte)) return State::kFailed;
  text_ += byte;
  if (!closing_marker_.Read(byte)) return State::kReading;
  text_.resize(text_.size() - closing_marker_.length());
  return Add(ReadTaggedCalls(text_, *tags_, strings_), State::kDone);
}

void TagReader::End() {
  // A format without the tag `function_end` does not show whether the last tool call is complete,
  // so ignore the call.
  if (tags_->function_end.empty()) return;
  text_.resize(text_.size() - closing_marker_.length());
  Add(ReadTaggedCalls(text_, *tags_, strings_), State::kDone);
}

bool TagReader::ReadBeginning(char byte) {
  if (num_name_bytes_ == 0 && IsOutputSpace(byte)) return true;
  if (!tags_->function_begin.empty()) {
    if (byte != tags_->function_begin[num_name_bytes_]) return false;
    has_begun_ = ++num_name_bytes_ == tags_->function_begin.size();
    return true;
  }
  if (byte == '<') {
    has_begun_ = true;
    return num_name_bytes_ > 0;
  }
  if (IsOutputSpace(byte)) {
    is_name_ended_ = true;
    return true;
  }
  return !is_name_ended_ && IsToolNameByte(byte) && ++num_name_bytes_ <= kToolNameBytesMax;
}

}  // namespace incipit
