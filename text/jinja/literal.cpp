#include "text/jinja/literal.h"

#include <algorithm>
#include <cstdlib>

#include "base/status.h"
#include "text/jinja/numbers.h"
#include "text/jinja/unicode.h"

namespace incipit::jinja {
namespace {

bool IsAsciiDigit(char c) { return c >= '0' && c <= '9'; }

// Digits of a base with single underscores in between, the first one already required.
size_t DigitsEnd(std::string_view source, size_t offset, int base, bool leading_underscore) {
  size_t end = offset;
  while (end < source.size()) {
    const bool underscore = source[end] == '_' && (end > offset || leading_underscore);
    const size_t digit = end + underscore;
    if (digit >= source.size() || DigitValue(source[digit]) >= base) break;
    end = digit + 1;
  }
  return end;
}

size_t ExponentEnd(std::string_view source, size_t offset) {
  if (offset >= source.size() || (source[offset] != 'e' && source[offset] != 'E')) return offset;
  size_t digits = offset + 1;
  if (digits < source.size() && (source[digits] == '+' || source[digits] == '-')) ++digits;
  const size_t end = DigitsEnd(source, digits, 10, false);
  return end == digits ? offset : end;
}

std::string WithoutUnderscores(std::string_view text) {
  std::string result(text);
  std::erase(result, '_');
  return result;
}

// Characters beyond ASCII as the escapes that Python's backslashreplace writes.
std::string ToAsciiEscapes(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = DecodeAt(text, i);
    if (c.value < 0x80) {
      result += static_cast<char>(c.value);
    } else if (c.value < 0x100) {
      result += fmt::format("\\x{:02x}", c.value);
    } else if (c.value < 0x10000) {
      result += fmt::format("\\u{:04x}", c.value);
    } else {
      result += fmt::format("\\U{:08x}", c.value);
    }
    i += c.size;
  }
  return result;
}

class Unescaper {
 public:
  explicit Unescaper(std::string_view ascii) : ascii_(ascii) {}

  absl::StatusOr<std::string> Run() {
    while (pos_ < ascii_.size()) {
      const char c = ascii_[pos_++];
      if (c != '\\') {
        result_ += c;
        continue;
      }
      if (pos_ == ascii_.size()) return InvalidArgument("\\ at end of string");
      INCIPIT_RETURN_IF_ERROR(Escape(ascii_[pos_++]));
    }
    return std::move(result_);
  }

 private:
  absl::Status Escape(char c) {
    constexpr std::string_view kNames = "abfnrtv\\'\"";
    constexpr std::string_view kMeanings = "\a\b\f\n\r\t\v\\'\"";
    if (const size_t index = kNames.find(c); index != std::string_view::npos) {
      result_ += kMeanings[index];
      return absl::OkStatus();
    }
    if (c == '\n') return absl::OkStatus();
    if (c >= '0' && c <= '7') {
      AppendOctal();
      return absl::OkStatus();
    }
    if (c == 'x') return AppendHex(2);
    if (c == 'u') return AppendHex(4);
    if (c == 'U') return AppendHex(8);
    if (c == 'N') return Unimplemented("the escape \\N{{...}} in a string is not supported");
    result_ += '\\';
    result_ += c;
    return absl::OkStatus();
  }

  void AppendOctal() {
    uint32_t value = 0;
    --pos_;
    for (int i = 0; i < 3 && pos_ < ascii_.size() && ascii_[pos_] >= '0' && ascii_[pos_] <= '7';
         ++i) {
      value = value * 8 + static_cast<uint32_t>(ascii_[pos_++] - '0');
    }
    AppendUtf8(result_, value);
  }

  absl::Status AppendHex(size_t num_digits) {
    uint32_t value = 0;
    for (size_t i = 0; i < num_digits; ++i) {
      if (pos_ >= ascii_.size() || DigitValue(ascii_[pos_]) >= 16) {
        return InvalidArgument("a truncated \\x, \\u or \\U escape in a string");
      }
      value = value * 16 + static_cast<uint32_t>(DigitValue(ascii_[pos_++]));
    }
    if (value > 0x10FFFF) return InvalidArgument("an illegal Unicode character in a string");
    AppendUtf8(result_, value);
    return absl::OkStatus();
  }

  std::string_view ascii_;
  size_t pos_ = 0;
  std::string result_;
};

}  // namespace

size_t FloatEnd(std::string_view source, size_t offset) {
  if (offset > 0 && source[offset - 1] == '.') return offset;
  const size_t whole = DigitsEnd(source, offset, 10, false);
  if (whole == offset) return offset;
  size_t end = whole;
  if (whole < source.size() && source[whole] == '.') {
    const size_t fraction = DigitsEnd(source, whole + 1, 10, false);
    if (fraction != whole + 1) end = fraction;
  }
  const size_t exponent = ExponentEnd(source, end);
  return end == whole && exponent == end ? offset : exponent;
}

size_t IntegerEnd(std::string_view source, size_t offset) {
  if (offset >= source.size() || !IsAsciiDigit(source[offset])) return offset;
  if (source[offset] != '0') return DigitsEnd(source, offset, 10, false);
  const char prefix = offset + 1 < source.size() ? source[offset + 1] : '\0';
  const int base = prefix == 'b' || prefix == 'B'   ? 2
                   : prefix == 'o' || prefix == 'O' ? 8
                   : prefix == 'x' || prefix == 'X' ? 16
                                                    : 1;
  if (base > 1) {
    const size_t end = DigitsEnd(source, offset + 2, base, true);
    if (end != offset + 2) return end;
  }
  return DigitsEnd(source, offset, 1, false);
}

size_t StringEnd(std::string_view source, size_t offset) {
  const char quote = source[offset];
  for (size_t i = offset + 1; i < source.size(); ++i) {
    if (source[i] == '\\') {
      ++i;
    } else if (source[i] == quote) {
      return i + 1;
    }
  }
  return offset;
}

absl::StatusOr<double> ParseFloatLiteral(std::string_view text) {
  return std::strtod(WithoutUnderscores(text).c_str(), nullptr);
}

absl::StatusOr<Int> ParseIntegerLiteral(std::string_view text) {
  const std::string digits = WithoutUnderscores(text);
  int base = 10;
  size_t begin = 0;
  if (digits.size() > 1 && digits[0] == '0' && !IsAsciiDigit(digits[1])) {
    const char prefix = static_cast<char>(digits[1] | 0x20);
    base = prefix == 'b' ? 2 : prefix == 'o' ? 8 : 16;
    begin = 2;
  }
  Int value = 0;
  for (size_t i = begin; i < digits.size(); ++i) {
    INCIPIT_ASSIGN_OR_RETURN(value, MultiplyInts(value, base));
    INCIPIT_ASSIGN_OR_RETURN(value, AddInts(value, DigitValue(digits[i])));
  }
  return value;
}

absl::StatusOr<std::string> UnescapeLiteral(std::string_view text) {
  const std::string ascii = ToAsciiEscapes(text);
  return Unescaper(ascii).Run();
}

}  // namespace incipit::jinja
