// UTF-8, and the properties of characters that define Python's str methods. Escapes in a template
// can create lone surrogates, which are stored in their three-byte form.
#pragma once

#include <cstdint>
#include <string_view>

#include "text/unicode/utf8.h"

namespace incipit::jinja {

struct CodePoint {
  uint32_t value = 0;
  size_t size = 0;  // number of bytes
};

// Returns the character at `offset`. REQUIRES: `offset` is less than bytes.size() and is the start
// of a well-formed character.
inline CodePoint DecodeAt(std::string_view bytes, size_t offset) {
  size_t end = offset;
  const char32_t value = NextCodePoint(bytes, end);
  return {value, end - offset};
}
size_t CountCodePoints(std::string_view bytes);
// Returns the byte offset of the character that is `num_chars` characters after `offset`. Returns
// bytes.size() at the end.
size_t OffsetOfChar(std::string_view bytes, size_t offset, size_t num_chars);

bool IsSpace(uint32_t c);      // as in str.isspace(), and \s of the module re
bool IsLineBreak(uint32_t c);  // true if str.splitlines() splits at the character
bool IsAlphabetic(uint32_t c);
bool IsDecimal(uint32_t c);
bool IsDigit(uint32_t c);
bool IsNumeric(uint32_t c);
bool IsAlphanumeric(uint32_t c);
bool IsLowercase(uint32_t c);
bool IsUppercase(uint32_t c);
bool IsTitlecase(uint32_t c);
bool IsCased(uint32_t c);
bool IsCaseIgnorable(uint32_t c);
bool IsPrintable(uint32_t c);
int DecimalValue(uint32_t c);  // -1 if the character is not a decimal digit

}  // namespace incipit::jinja
