#include "text/jinja/syntax/lexer.h"

#include <algorithm>

#include "base/status.h"
#include "text/jinja/runtime/python_characters.h"

namespace incipit::jinja {
namespace {

// All operators of expressions. The lexer chooses the first operator in the list that matches, so
// longer operators come first.
constexpr std::string_view kOperators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                           "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                           ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};

bool IsNameCharacter(char c) {
  return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// Returns `text` with every \r\n and every single \r replaced by \n.
std::string NormalizeNewlines(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r') {
      result += '\n';
      if (i + 1 < text.size() && text[i + 1] == '\n') ++i;
    } else {
      result += text[i];
    }
  }
  return result;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(NormalizeNewlines(source)) {
    if (source_.ends_with('\n')) source_.pop_back();
  }

  absl::StatusOr<std::vector<Token>> Run() {
    while (pos_ < source_.size()) INCIPIT_RETURN_IF_ERROR(LexRoot());
    Emit(TokenType::kEnd);
    return std::move(tokens_);
  }

 private:
  bool At(std::string_view text) const { return AtOffset(pos_, text); }
  bool AtOffset(size_t offset, std::string_view text) const {
    return source_.compare(std::min(offset, source_.size()), text.size(), text) == 0;
  }

  size_t SkipSpace(size_t offset) const { return SkipWhile(source_, offset, IsSpace); }

  void MoveTo(size_t offset) {
    for (; pos_ < offset; ++pos_) line_ += source_[pos_] == '\n';
  }

  void Emit(TokenType type, std::string text = {}) {
    tokens_.push_back({type, line_, std::move(text), Value()});
  }

  absl::Status Error(std::string_view message) const {
    return InvalidArgument("chat template line {}: {}", line_, message);
  }

  // Returns the offset after `{%`, the name `name` and the surrounding white space. Returns npos if
  // the tag at `offset` has another name. REQUIRES: a tag begins at `offset`.
  size_t TagNameEnd(size_t offset, std::string_view name) const {
    offset += 2;
    if (AtOffset(offset, "-") || AtOffset(offset, "+")) ++offset;
    offset = SkipSpace(offset);
    return AtOffset(offset, name) ? SkipSpace(offset + name.size()) : std::string::npos;
  }

  // Returns the offset after the tag `{% raw %}` that begins at `offset`. Returns npos if another
  // tag begins at `offset`.
  size_t RawBegin(size_t offset) const {
    offset = TagNameEnd(offset, "raw");
    if (offset == std::string::npos) return offset;
    if (AtOffset(offset, "-%}")) return SkipSpace(offset + 3);
    return AtOffset(offset, "%}") ? offset + 2 : std::string::npos;
  }

  size_t RawEnd(size_t offset) const {
    offset = TagNameEnd(offset, "endraw");
    return offset == std::string::npos ? offset : ClosingEnd(offset, '%');
  }

  // Returns the offset after the closing delimiter (`%}` or `#}`) at `offset`, and after the white
  // space that the delimiter removes. Returns npos if no closing delimiter is at `offset`.
  size_t ClosingEnd(size_t offset, char kind) const {
    const char close[] = {kind, '}', '\0'};
    if (AtOffset(offset, "+") && AtOffset(offset + 1, close)) return offset + 3;
    if (AtOffset(offset, "-") && AtOffset(offset + 1, close)) return SkipSpace(offset + 3);
    if (!AtOffset(offset, close)) return std::string::npos;
    return AtOffset(offset + 2, "\n") ? offset + 3 : offset + 2;
  }

  // Emits a token for the text [begin, tag). `tag` is the offset of the next tag. If this tag
  // removes preceding white space, omits the white space at the end of the text.
  void EmitData(size_t begin, size_t tag) {
    std::string_view text = std::string_view(source_).substr(begin, tag - begin);
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    if (sign == '-') {
      while (!text.empty()) {
        const size_t last = PreviousCharacter(text, text.size());
        if (!IsSpace(DecodeAt(text, last).value)) break;
        text = text.substr(0, last);
      }
    } else if (sign != '+' && source_[tag + 1] != '{') {
      const size_t line_begin = text.rfind('\n') + 1;
      const bool starts_line = line_begin > 0 || begin == 0 || source_[begin - 1] == '\n';
      if (starts_line && SkipWhile(text, line_begin, IsSpace) == text.size()) {
        text = text.substr(0, line_begin);
      }
    }
    if (!text.empty()) Emit(TokenType::kData, std::string(text));
  }

  absl::Status LexRoot() {
    size_t tag = pos_;
    while (true) {
      tag = source_.find('{', tag);
      if (tag == std::string::npos || tag + 1 >= source_.size()) {
        Emit(TokenType::kData, source_.substr(pos_));
        MoveTo(source_.size());
        return absl::OkStatus();
      }
      const char next = source_[tag + 1];
      if (next == '{' || next == '%' || next == '#') break;
      ++tag;
    }
    EmitData(pos_, tag);
    const char kind = source_[tag + 1];
    if (kind == '%') {
      if (const size_t raw = RawBegin(tag); raw != std::string::npos) {
        MoveTo(raw);
        return LexRaw();
      }
    }
    MoveTo(tag);
    if (kind != '#') Emit(kind == '{' ? TokenType::kVariableBegin : TokenType::kBlockBegin);
    MoveTo(tag + 2);
    if (At("-") || At("+")) MoveTo(pos_ + 1);
    return kind == '#' ? LexComment() : LexTag(kind == '{');
  }

  absl::Status LexComment() {
    for (size_t i = source_.find_first_of("#+-", pos_); i < source_.size(); ++i) {
      if (const size_t end = ClosingEnd(i, '#'); end != std::string::npos) {
        MoveTo(end);
        return absl::OkStatus();
      }
    }
    return Error("a comment has no closing #}");
  }

  absl::Status LexRaw() {
    for (size_t i = source_.find("{%", pos_); i < source_.size(); i = source_.find("{%", i + 1)) {
      if (const size_t end = RawEnd(i); end != std::string::npos) {
        EmitData(pos_, i);
        MoveTo(end);
        return absl::OkStatus();
      }
    }
    return Error("a raw block has no tag {% endraw %}");
  }

  // Returns the offset after the end of the current tag (`%}` or `}}`, and white space that the tag
  // removes) if the tag ends at the current position. Returns npos otherwise.
  size_t TagEnd(bool is_variable) const {
    if (!is_variable) return ClosingEnd(pos_, '%');
    if (At("-}}")) return SkipSpace(pos_ + 3);
    return At("}}") ? pos_ + 2 : std::string::npos;
  }

  absl::Status LexTag(bool is_variable) {
    std::string open;  // the closing bracket of each open bracket; the innermost is last
    while (pos_ < source_.size()) {
      if (open.empty()) {
        if (const size_t end = TagEnd(is_variable); end != std::string::npos) {
          Emit(is_variable ? TokenType::kVariableEnd : TokenType::kBlockEnd);
          MoveTo(end);
          return absl::OkStatus();
        }
      }
      if (const size_t end = SkipSpace(pos_); end != pos_) {
        MoveTo(end);
        continue;
      }
      INCIPIT_RETURN_IF_ERROR(LexToken(open));
    }
    return absl::OkStatus();
  }

  absl::Status LexToken(std::string& open) {
    INCIPIT_ASSIGN_OR_RETURN(const std::optional<NumberLiteral> number,
                             AtLine(ReadNumber(source_, pos_)));
    if (number) {
      Emit(TokenType::kNumber);
      tokens_.back().number = number->value;
      MoveTo(number->end);
      return absl::OkStatus();
    }
    size_t end = pos_;
    while (end < source_.size() && IsNameCharacter(source_[end])) ++end;
    if (end != pos_) {
      Emit(TokenType::kName, source_.substr(pos_, end - pos_));
      MoveTo(end);
      return absl::OkStatus();
    }
    if (source_[pos_] == '\'' || source_[pos_] == '"') return LexString();
    for (const std::string_view op : kOperators) {
      if (!At(op)) continue;
      INCIPIT_RETURN_IF_ERROR(Balance(op[0], open));
      Emit(TokenType::kOperator, std::string(op));
      MoveTo(pos_ + op.size());
      return absl::OkStatus();
    }
    const std::string character = source_.substr(pos_, DecodeAt(source_, pos_).size);
    if (character.size() == 1) return Error(fmt::format("unexpected character '{}'", character));
    return Unimplemented("chat template line {}: the character '{}' in a name is not supported",
                         line_, character);
  }

  absl::Status LexString() {
    const size_t end = StringEnd(source_, pos_);
    if (end == pos_) return Error("a string is not closed");
    INCIPIT_ASSIGN_OR_RETURN(
        std::string text,
        AtLine(UnescapeLiteral(std::string_view(source_).substr(pos_ + 1, end - pos_ - 2))));
    Emit(TokenType::kString, std::move(text));
    MoveTo(end);
    return absl::OkStatus();
  }

  template <typename T>
  absl::StatusOr<T> AtLine(absl::StatusOr<T> result) const {
    if (result.ok()) return result;
    return Annotate(result.status(), fmt::format("chat template line {}", line_));
  }

  absl::Status Balance(char op, std::string& open) const {
    constexpr std::string_view kOpening = "{([", kClosing = "})]";
    if (const size_t index = kOpening.find(op); index != std::string_view::npos) {
      open += kClosing[index];
    } else if (kClosing.find(op) != std::string_view::npos) {
      if (open.empty()) return Error(fmt::format("unexpected '{}'", op));
      if (open.back() != op) {
        return Error(fmt::format("unexpected '{}', expected '{}'", op, open.back()));
      }
      open.pop_back();
    }
    return absl::OkStatus();
  }

  std::string source_;
  size_t pos_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

absl::StatusOr<std::vector<Token>> Tokenize(std::string_view source) {
  if (!IsUtf8(source)) return InvalidArgument("the chat template is not UTF-8");
  return Lexer(source).Run();
}

std::string_view Describe(TokenType type) {
  constexpr std::string_view kNames[] = {"template data / text",
                                         "begin of print statement",
                                         "end of print statement",
                                         "begin of statement block",
                                         "end of statement block",
                                         "name",
                                         "string",
                                         "number",
                                         "operator",
                                         "end of template"};
  return kNames[static_cast<size_t>(type)];
}

std::string_view Describe(const Token& token) {
  const bool has_name = token.type == TokenType::kName || token.type == TokenType::kOperator;
  return has_name ? token.text : Describe(token.type);
}

}  // namespace incipit::jinja
