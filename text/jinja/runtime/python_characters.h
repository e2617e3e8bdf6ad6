// Functions for UTF-8 text and for properties of characters, as in Python's str methods. A text may
// contain lone surrogates, such as "\ud800" in a template. Each lone surrogate is encoded as three
// bytes.
#pragma once

#include <cstdint>
#include <string_view>

#include "text/unicode/utf8.h"

namespace incipit::jinja {

struct CodePoint {
  uint32_t value = 0;
  size_t size = 0;  // number of bytes of the character in UTF-8
};

// Returns the character that begins at the byte offset `offset` of `bytes`. REQUIRES: a well-formed
// character begins at `offset`.
inline CodePoint DecodeAt(std::string_view bytes, size_t offset) {
  size_t end = offset;
  const char32_t value = NextCodePoint(bytes, end);
  return {value, end - offset};
}
// Returns the byte offset of the first character at or after `offset` for which `predicate` is
// false. Returns bytes.size() if there is no such character.
template <typename Predicate>
size_t SkipWhile(std::string_view bytes, size_t offset, Predicate predicate) {
  while (offset < bytes.size()) {
    const CodePoint c = DecodeAt(bytes, offset);
    if (!predicate(c.value)) break;
    offset += c.size;
  }
  return offset;
}
// Returns the number of characters in the UTF-8 text `bytes`.
size_t CountCodePoints(std::string_view bytes);
// Returns the byte offset of the character that is `num_chars` characters after the byte offset
// `offset`. Returns bytes.size() if fewer characters follow.
size_t OffsetOfChar(std::string_view bytes, size_t offset, size_t num_chars);

bool IsSpace(uint32_t c);      // true if Python's str.isspace() is true for `c`
bool IsLineBreak(uint32_t c);  // true if Python's str.splitlines() splits at `c`
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
int DecimalValue(uint32_t c);  // value 0 to 9 of a decimal digit; -1 for any other character

}  // namespace incipit::jinja
