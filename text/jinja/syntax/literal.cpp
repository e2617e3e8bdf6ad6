#include <charconv>
#include <cstdlib>

#include "base/status.h"
#include "text/jinja/runtime/numbers.h"
#include "text/jinja/syntax/lexer.h"
#include "text/unicode/utf8.h"

namespace incipit::jinja {
namespace {

char CharAt(std::string_view source, size_t offset) {
  return offset < source.size() ? source[offset] : '\0';
}

size_t DigitsEnd(std::string_view source, size_t offset) {
  while (DigitValue(CharAt(source, offset)) < 10) ++offset;
  return offset;
}

size_t FractionEnd(std::string_view source, size_t offset) {
  if (CharAt(source, offset) != '.') return offset;
  const size_t end = DigitsEnd(source, offset + 1);
  return end == offset + 1 ? offset : end;
}

size_t ExponentEnd(std::string_view source, size_t offset) {
  if ((CharAt(source, offset) | 0x20) != 'e') return offset;
  const char sign = CharAt(source, offset + 1);
  const size_t digits = offset + 1 + (sign == '+' || sign == '-');
  const size_t end = DigitsEnd(source, digits);
  return end == digits ? offset : end;
}

// Reads a character code of `num_digits` hexadecimal digits at `pos`. Appends the character to
// `out`, and moves `pos` to the end of the digits.
absl::Status AppendHex(std::string_view text, size_t& pos, size_t num_digits, std::string& out) {
  uint32_t value = 0;
  for (size_t i = 0; i < num_digits; ++i) {
    const int digit = DigitValue(CharAt(text, pos++));
    if (digit >= 16)
      return InvalidArgument("a string contains an incomplete escape \\x, \\u or \\U");
    value = value * 16 + static_cast<uint32_t>(digit);
  }
  if (value > 0x10FFFF)
    return InvalidArgument("an escape in a string has a code point above U+10FFFF");
  AppendUtf8(value, out);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::optional<NumberLiteral>> ReadNumber(std::string_view source, size_t offset) {
  const size_t whole = DigitsEnd(source, offset);
  if (whole == offset) return std::optional<NumberLiteral>();
  const char next = static_cast<char>(CharAt(source, whole) | 0x20);
  if (CharAt(source, whole) == '_')
    return Unimplemented("an underscore in a number is not supported");
  if (source.substr(offset, whole - offset) == "0" && (next == 'x' || next == 'o' || next == 'b')) {
    return Unimplemented("a number with the prefix 0{} is not supported", next);
  }
  const std::string_view digits = source.substr(offset, whole - offset);
  const bool after_dot = offset > 0 && source[offset - 1] == '.';
  const size_t end = after_dot ? whole : ExponentEnd(source, FractionEnd(source, whole));
  if (end != whole) {
    const std::string text(source.substr(offset, end - offset));
    return std::optional(NumberLiteral{Value::Real(std::strtod(text.c_str(), nullptr)), end});
  }
  if (digits[0] == '0' && digits.find_first_not_of('0') != std::string_view::npos) {
    return InvalidArgument("an integer other than 0 must not begin with the digit 0");
  }
  Int value = 0;
  if (std::from_chars(digits.data(), digits.data() + digits.size(), value).ec != std::errc()) {
    return IntegerTooLarge();
  }
  return std::optional(NumberLiteral{Value::Integer(value), end});
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

absl::StatusOr<std::string> UnescapeLiteral(std::string_view text) {
  constexpr std::string_view kNames = "abfnrtv\\'\"";
  constexpr std::string_view kMeanings = "\a\b\f\n\r\t\v\\'\"";
  std::string result;
  for (size_t pos = 0; pos < text.size();) {
    const size_t backslash = std::min(text.find('\\', pos), text.size());
    result += text.substr(pos, backslash - pos);
    if (backslash == text.size()) break;
    const char c = CharAt(text, backslash + 1);
    pos = backslash + 2;
    if (const size_t index = kNames.find(c); index != std::string_view::npos) {
      result += kMeanings[index];
    } else if (c == 'x' || c == 'u' || c == 'U') {
      INCIPIT_RETURN_IF_ERROR(AppendHex(text, pos, c == 'x' ? 2 : c == 'u' ? 4 : 8, result));
    } else if (c == 'N') {
      return Unimplemented("the escape \\N{{...}} in a string is not supported");
    } else if (c >= '0' && c <= '7') {
      return Unimplemented("the octal escape \\{} in a string is not supported", c);
    } else if (static_cast<uint8_t>(c) >= 0x80) {
      return Unimplemented("a backslash before a character outside of ASCII is not supported");
    } else if (c != '\n') {
      result += {'\\', c};
    }
  }
  return result;
}

}  // namespace incipit::jinja
