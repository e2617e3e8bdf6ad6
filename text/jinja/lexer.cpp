#include "text/jinja/lexer.h"

#include <charconv>

#include "base/status.h"
#include "text/jinja/literal.h"
#include "text/jinja/unicode.h"

namespace incipit::jinja {
namespace {

struct Operator {
  std::string_view spelling;
  TokenType type;
};
// Longer ones first, as they are tried in this order.
constexpr Operator kOperators[] = {
    {"//", TokenType::kFloorDiv},   {"**", TokenType::kPow},          {"==", TokenType::kEqual},
    {"!=", TokenType::kNotEqual},   {">=", TokenType::kGreaterEqual}, {"<=", TokenType::kLessEqual},
    {"+", TokenType::kAdd},         {"-", TokenType::kSub},           {"/", TokenType::kDiv},
    {"*", TokenType::kMul},         {"%", TokenType::kMod},           {"~", TokenType::kTilde},
    {"[", TokenType::kLeftBracket}, {"]", TokenType::kRightBracket},  {"(", TokenType::kLeftParen},
    {")", TokenType::kRightParen},  {"{", TokenType::kLeftBrace},     {"}", TokenType::kRightBrace},
    {">", TokenType::kGreater},     {"<", TokenType::kLess},          {"=", TokenType::kAssign},
    {".", TokenType::kDot},         {":", TokenType::kColon},         {"|", TokenType::kPipe},
    {",", TokenType::kComma},       {";", TokenType::kSemicolon},
};

// \r\n and \r become \n.
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
    return std::string_view(source_).substr(offset).starts_with(text);
  }

  size_t SkipSpace(size_t offset) const {
    while (offset < source_.size()) {
      const CodePoint c = DecodeAt(source_, offset);
      if (!IsSpace(c.value)) break;
      offset += c.size;
    }
    return offset;
  }

  void MoveTo(size_t offset) {
    for (; pos_ < offset; ++pos_) line_ += source_[pos_] == '\n';
  }

  void Emit(TokenType type, std::string text = {}) {
    tokens_.push_back({type, line_, std::move(text), Value()});
  }

  absl::Status Error(std::string_view message) const {
    return InvalidArgument("chat template line {}: {}", line_, message);
  }

  // The end of `{% raw %}` at `offset`, or npos.
  size_t RawBegin(size_t offset) const {
    offset += 2;
    if (offset < source_.size() && (source_[offset] == '-' || source_[offset] == '+')) ++offset;
    offset = SkipSpace(offset);
    if (!AtOffset(offset, "raw")) return std::string::npos;
    offset = SkipSpace(offset + 3);
    if (AtOffset(offset, "-%}")) return SkipSpace(offset + 3);
    return AtOffset(offset, "%}") ? offset + 2 : std::string::npos;
  }

  // The end of `{% endraw %}` at `offset`, or npos.
  size_t RawEnd(size_t offset) const {
    if (!AtOffset(offset, "{%")) return std::string::npos;
    offset += 2;
    if (offset < source_.size() && (source_[offset] == '-' || source_[offset] == '+')) ++offset;
    offset = SkipSpace(offset);
    if (!AtOffset(offset, "endraw")) return std::string::npos;
    return ClosingEnd(SkipSpace(offset + 6), '%');
  }

  // The end of `%}` (or `#}`) with its whitespace control at `offset`, or npos.
  size_t ClosingEnd(size_t offset, char kind) const {
    const char close[] = {kind, '}', '\0'};
    if (AtOffset(offset, "+") && AtOffset(offset + 1, close)) return offset + 3;
    if (AtOffset(offset, "-") && AtOffset(offset + 1, close)) return SkipSpace(offset + 3);
    if (!AtOffset(offset, close)) return std::string::npos;
    return AtOffset(offset + 2, "\n") ? offset + 3 : offset + 2;
  }

  // The text before a tag at `tag`, as its whitespace control leaves it.
  void EmitData(size_t begin, size_t tag) {
    std::string_view text = std::string_view(source_).substr(begin, tag - begin);
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    if (sign == '-') {
      while (!text.empty()) {
        const size_t last = PreviousChar(text, text.size());
        if (!IsSpace(DecodeAt(text, last).value)) break;
        text = text.substr(0, last);
      }
    } else if (sign != '+' && source_[tag + 1] != '{') {
      const size_t line_begin = text.rfind('\n') + 1;  // npos + 1 is 0
      const bool starts_line = line_begin > 0 || begin == 0 || source_[begin - 1] == '\n';
      bool blank = starts_line;
      for (size_t i = line_begin; blank && i < text.size();) {
        const CodePoint c = DecodeAt(text, i);
        blank = IsSpace(c.value);
        i += c.size;
      }
      if (blank) text = text.substr(0, line_begin);
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
    const bool has_sign =
        tag + 2 < source_.size() && (source_[tag + 2] == '-' || source_[tag + 2] == '+');
    if (kind == '#') {
      MoveTo(tag + 2 + has_sign);
      return LexComment();
    }
    Emit(kind == '{' ? TokenType::kVariableBegin : TokenType::kBlockBegin);
    MoveTo(tag + 2 + has_sign);
    return LexTag(kind == '{');
  }

  absl::Status LexComment() {
    for (size_t i = pos_; i < source_.size(); ++i) {
      if (const size_t end = ClosingEnd(i, '#'); end != std::string::npos) {
        MoveTo(end);
        return absl::OkStatus();
      }
    }
    return Error("missing end of comment tag");
  }

  absl::Status LexRaw() {
    for (size_t i = pos_; i < source_.size(); ++i) {
      if (const size_t end = RawEnd(i); end != std::string::npos) {
        EmitData(pos_, i);
        MoveTo(end);
        return absl::OkStatus();
      }
    }
    return Error("missing end of raw directive");
  }

  // The end of the tag at the current place, or npos.
  size_t TagEnd(bool is_variable) const {
    if (!is_variable) return ClosingEnd(pos_, '%');
    if (At("-}}")) return SkipSpace(pos_ + 3);
    return At("}}") ? pos_ + 2 : std::string::npos;
  }

  absl::Status LexTag(bool is_variable) {
    std::string open;  // the brackets that are not closed yet
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
    if (const size_t end = FloatEnd(source_, pos_); end != pos_) return EmitFloat(end);
    if (const size_t end = IntegerEnd(source_, pos_); end != pos_) return EmitInteger(end);
    size_t end = pos_;
    while (end < source_.size()) {
      const CodePoint c = DecodeAt(source_, end);
      if (c.value != '_' && !IsAlphanumeric(c.value) && !IsIdentifierContinue(c.value)) break;
      end += c.size;
    }
    if (end != pos_) return EmitName(end);
    if (source_[pos_] == '\'' || source_[pos_] == '"') {
      if (const size_t string_end = StringEnd(source_, pos_); string_end != pos_) {
        INCIPIT_ASSIGN_OR_RETURN(std::string text, Unescape(string_end));
        Emit(TokenType::kString, std::move(text));
        MoveTo(string_end);
        return absl::OkStatus();
      }
      return Error("a string is not closed");
    }
    for (const Operator& op : kOperators) {
      if (!At(op.spelling)) continue;
      INCIPIT_RETURN_IF_ERROR(Balance(op, open));
      Emit(op.type, std::string(op.spelling));
      MoveTo(pos_ + op.spelling.size());
      return absl::OkStatus();
    }
    return Error(fmt::format("unexpected character '{}'",
                             source_.substr(pos_, DecodeAt(source_, pos_).size)));
  }

  absl::Status EmitFloat(size_t end) {
    INCIPIT_ASSIGN_OR_RETURN(const double value,
                             ParseFloatLiteral(source_.substr(pos_, end - pos_)));
    Emit(TokenType::kFloat);
    tokens_.back().number = Value::Real(value);
    MoveTo(end);
    return absl::OkStatus();
  }

  absl::Status EmitInteger(size_t end) {
    const absl::StatusOr<Int> value = ParseIntegerLiteral(source_.substr(pos_, end - pos_));
    if (!value.ok()) return Error(MessageOf(value.status()));
    Emit(TokenType::kInteger);
    tokens_.back().number = Value::Integer(*value);
    MoveTo(end);
    return absl::OkStatus();
  }

  absl::Status EmitName(size_t end) {
    const std::string name = source_.substr(pos_, end - pos_);
    for (size_t i = 0; i < name.size();) {
      const CodePoint c = DecodeAt(name, i);
      if (i == 0 ? c.value != '_' && !IsIdentifierStart(c.value) : !IsIdentifierContinue(c.value)) {
        return Error("invalid character in identifier");
      }
      i += c.size;
    }
    Emit(TokenType::kName, name);
    MoveTo(end);
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Unescape(size_t end) const {
    absl::StatusOr<std::string> text =
        UnescapeLiteral(std::string_view(source_).substr(pos_ + 1, end - pos_ - 2));
    if (text.ok()) return text;
    return absl::Status(text.status().code(),
                        fmt::format("chat template line {}: {}", line_, MessageOf(text.status())));
  }

  absl::Status Balance(const Operator& op, std::string& open) const {
    switch (op.type) {
      case TokenType::kLeftBrace:
        open += '}';
        break;
      case TokenType::kLeftParen:
        open += ')';
        break;
      case TokenType::kLeftBracket:
        open += ']';
        break;
      case TokenType::kRightBrace:
      case TokenType::kRightParen:
      case TokenType::kRightBracket:
        if (open.empty()) return Error(fmt::format("unexpected '{}'", op.spelling));
        if (open.back() != op.spelling[0]) {
          return Error(fmt::format("unexpected '{}', expected '{}'", op.spelling, open.back()));
        }
        open.pop_back();
        break;
      default:
        break;
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
  if (!IsValidUtf8(source)) return InvalidArgument("the chat template is not UTF-8");
  return Lexer(source).Run();
}

std::string_view Describe(TokenType type) {
  switch (type) {
    case TokenType::kData:
      return "template data / text";
    case TokenType::kVariableBegin:
      return "begin of print statement";
    case TokenType::kVariableEnd:
      return "end of print statement";
    case TokenType::kBlockBegin:
      return "begin of statement block";
    case TokenType::kBlockEnd:
      return "end of statement block";
    case TokenType::kName:
      return "name";
    case TokenType::kString:
      return "string";
    case TokenType::kInteger:
      return "integer";
    case TokenType::kFloat:
      return "float";
    case TokenType::kEnd:
      return "end of template";
    default:
      break;
  }
  for (const Operator& op : kOperators) {
    if (op.type == type) return op.spelling;
  }
  return "token";
}

std::string Describe(const Token& token) {
  return token.type == TokenType::kName ? token.text : std::string(Describe(token.type));
}

}  // namespace incipit::jinja
