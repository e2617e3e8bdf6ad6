#include "text/chat/python_calls.h"

#include <utility>

#include "text/unicode/utf8.h"

namespace incipit {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool IsNameStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

bool IsNameByte(char c) { return IsNameStart(c) || IsDigit(c); }

// Returns the value of the hexadecimal digit `c`. Returns -1 if `c` is not a hexadecimal digit.
int HexDigit(char c) {
  if (IsDigit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Parses Python expressions from left to right. A parsing function returns false or an empty text
// if the next bytes do not match.
class PythonReader {
 public:
  explicit PythonReader(std::string_view text) : text_(text) {}

  bool AtEnd() {
    SkipSpace();
    return position_ == text_.size();
  }

  // Skips white space and the byte `c` after it. Returns false if the byte after the white space is
  // not `c`.
  bool Accept(char c) {
    SkipSpace();
    if (Peek() != c) return false;
    ++position_;
    return true;
  }

  std::string_view Name(bool allows_dots) {
    SkipSpace();
    const size_t begin = position_;
    if (!IsNameStart(Peek())) return {};
    while (IsNameByte(Peek()) || (allows_dots && Peek() == '.')) ++position_;
    return text_.substr(begin, position_ - begin);
  }

  // Parses a Python literal, such as 'a' or [1, None], and appends its value as JSON text to
  // `json`.
  bool Literal(std::string& json);
  bool Call(std::vector<ToolCall>& calls);

 private:
  // Returns the next byte, or 0 at the end of the text.
  char Peek() const { return position_ < text_.size() ? text_[position_] : '\0'; }

  void SkipSpace() {
    while (IsOutputSpace(Peek())) ++position_;
  }

  bool Elements(char close, std::string& json);
  bool Items(std::string& json);
  bool Number(std::string& json);
  bool String(std::string& json);
  bool Escape(std::string& characters);
  bool CodePoint(int num_digits, std::string& characters);

  std::string_view text_;
  size_t position_ = 0;
  int32_t depth_ = 0;
};

bool PythonReader::Literal(std::string& json) {
  SkipSpace();
  const char c = Peek();
  if (c == '"' || c == '\'') return String(json);
  if (c == '-' || c == '+' || c == '.' || IsDigit(c)) return Number(json);
  if (c == '[' || c == '(' || c == '{') {
    if (depth_ == kToolCallDepthMax) return false;
    ++position_;
    ++depth_;
    const bool is_whole = c == '{' ? Items(json) : Elements(c == '[' ? ']' : ')', json);
    --depth_;
    return is_whole;
  }
  const std::string_view name = Name(/*allows_dots=*/false);
  if (name == "True" || name == "true") {
    json += "true";
  } else if (name == "False" || name == "false") {
    json += "false";
  } else if (name == "None" || name == "null") {
    json += "null";
  } else {
    return false;
  }
  return true;
}

// Parses the elements of a list or a tuple after the opening bracket, and appends a JSON array to
// `json`. Returns false for a text such as `(1)`, which in Python is a number and not a tuple.
bool PythonReader::Elements(char close, std::string& json) {
  json += '[';
  bool has_comma = true;
  size_t num_elements = 0;
  while (!Accept(close)) {
    if (!has_comma) return false;
    if (num_elements++ > 0) json += ',';
    if (!Literal(json)) return false;
    has_comma = Accept(',');
  }
  json += ']';
  return close == ']' || num_elements != 1 || has_comma;
}

// Parses the items of a dictionary after the opening brace, and appends a JSON object to `json`.
bool PythonReader::Items(std::string& json) {
  json += '{';
  bool has_comma = true;
  while (!Accept('}')) {
    if (!has_comma) return false;
    if (json.back() != '{') json += ',';
    SkipSpace();
    if ((Peek() != '"' && Peek() != '\'') || !String(json) || !Accept(':')) return false;
    json += ':';
    if (!Literal(json)) return false;
    has_comma = Accept(',');
  }
  json += '}';
  return true;
}

// Parses a decimal number, and appends the number to `json` as JSON text. Omits a plus sign. Adds
// the digit 0 if no digit precedes or follows the decimal point: .5 becomes 0.5.
bool PythonReader::Number(std::string& json) {
  const auto digits = [&] {
    const size_t begin = position_;
    while (IsDigit(Peek())) ++position_;
    return text_.substr(begin, position_ - begin);
  };
  if (Peek() == '-') json += '-';
  if (Peek() == '-' || Peek() == '+') ++position_;
  const std::string_view whole = digits();
  if (whole.size() > 1 && whole.front() == '0') return false;
  json += whole.empty() ? "0" : whole;
  std::string_view fraction;
  if (Peek() == '.') {
    ++position_;
    fraction = digits();
    json.append(".").append(fraction.empty() ? "0" : fraction);
  }
  if (whole.empty() && fraction.empty()) return false;
  if (Peek() == 'e' || Peek() == 'E') {
    json += text_[position_++];
    if (Peek() == '-' || Peek() == '+') json += text_[position_++];
    const std::string_view exponent = digits();
    if (exponent.empty()) return false;
    json += exponent;
  }
  return !IsNameByte(Peek()) && Peek() != '.';
}

bool PythonReader::String(std::string& json) {
  const char quote = text_[position_++];
  std::string characters;
  while (Peek() != quote) {
    if (position_ == text_.size() || Peek() == '\n') return false;
    if (Peek() != '\\') {
      characters += text_[position_++];
      continue;
    }
    ++position_;
    if (!Escape(characters)) return false;
  }
  ++position_;
  const std::optional<std::string> string = JsonStringOf(characters);
  if (string) json += *string;
  return string.has_value();
}

// Parses an escape sequence after its backslash, and appends the escaped character to `characters`.
// Appends an unknown escape sequence without change, as Python does.
bool PythonReader::Escape(std::string& characters) {
  constexpr std::string_view kEscapes = "\\'\"abfnrtv";
  constexpr std::string_view kMeanings = "\\'\"\a\b\f\n\r\t\v";
  if (position_ == text_.size()) return false;
  const char c = text_[position_++];
  if (const size_t i = kEscapes.find(c); i != std::string_view::npos) {
    characters += kMeanings[i];
  } else if (c == 'x') {
    return CodePoint(2, characters);
  } else if (c == 'u') {
    return CodePoint(4, characters);
  } else if (c == 'U') {
    return CodePoint(8, characters);
  } else if (c == '\n' || c == 'N' || IsDigit(c)) {
    return false;
  } else {
    characters.append("\\").append(1, c);
  }
  return true;
}

// Parses `num_digits` hexadecimal digits of a code point, and appends the character of this code
// point to `characters`.
bool PythonReader::CodePoint(int num_digits, std::string& characters) {
  uint64_t code_point = 0;
  for (int i = 0; i < num_digits; ++i) {
    const int digit = HexDigit(Peek());
    if (digit < 0) return false;
    ++position_;
    code_point = code_point * 16 + static_cast<uint64_t>(digit);
  }
  const bool is_surrogate = code_point >= 0xD800 && code_point < 0xE000;
  if (code_point > kCodePointMax || is_surrogate) return false;
  AppendUtf8(static_cast<char32_t>(code_point), characters);
  return true;
}

bool PythonReader::Call(std::vector<ToolCall>& calls) {
  const std::string_view name = Name(/*allows_dots=*/true);
  if (name.empty() || !Accept('(')) return false;
  std::string arguments = "{";
  bool has_comma = true;
  while (!Accept(')')) {
    if (!has_comma) return false;
    if (arguments.size() > 1) arguments += ',';
    const std::string_view key = Name(/*allows_dots=*/false);
    if (key.empty() || !Accept('=')) return false;
    arguments.append("\"").append(key).append("\":");
    if (!Literal(arguments)) return false;
    has_comma = Accept(',');
  }
  std::optional<ToolCall> call = MakeToolCall(name, arguments + '}');
  if (call) calls.push_back(*std::move(call));
  return call.has_value();
}

}  // namespace

std::optional<std::vector<ToolCall>> ReadPythonCalls(std::string_view text) {
  PythonReader reader(text);
  std::vector<ToolCall> calls;
  if (!reader.Accept('[')) return std::nullopt;
  bool has_comma = true;
  while (!reader.Accept(']')) {
    if (!has_comma || !reader.Call(calls)) return std::nullopt;
    has_comma = reader.Accept(',');
  }
  if (calls.empty() || !reader.AtEnd()) return std::nullopt;
  return calls;
}

std::optional<std::string> JsonOfPythonLiteral(std::string_view text) {
  PythonReader reader(text);
  std::string json;
  if (!reader.Literal(json) || !reader.AtEnd()) return std::nullopt;
  return json;
}

PythonCallsExtent::State PythonCallsExtent::Read(char byte) {
  if (quote_ != 0) {
    if (byte == '\n') return State::kInvalid;
    if (!is_escaped_ && byte == quote_) quote_ = 0;
    is_escaped_ = !is_escaped_ && byte == '\\';
    return State::kOpen;
  }
  if (depth_ == 0) {
    depth_ = 1;
    return byte == '[' ? State::kOpen : State::kInvalid;
  }
  if (!has_call_) {
    if (!has_name_ && IsOutputSpace(byte)) return State::kOpen;
    if (has_name_ && byte == '(') {
      has_call_ = true;
      ++depth_;
      return State::kOpen;
    }
    const bool fits = IsNameStart(byte) || (has_name_ && (IsNameByte(byte) || byte == '.'));
    has_name_ = true;
    return fits ? State::kOpen : State::kInvalid;
  }
  if (byte == '[' || byte == '(' || byte == '{') {
    return ++depth_ > kToolCallDepthMax ? State::kInvalid : State::kOpen;
  }
  if (byte == ']' || byte == ')' || byte == '}') {
    return --depth_ == 0 ? State::kClosed : State::kOpen;
  }
  if (byte == '"' || byte == '\'') quote_ = byte;
  return State::kOpen;
}

}  // namespace incipit
