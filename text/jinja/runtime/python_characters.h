// UTF-8 and the character properties that Python's str methods are defined by. Lone surrogates,
// which a template's escapes can make, are carried in their three-byte form.
#pragma once

#include <cstdint>
#include <string_view>

#include "text/unicode/utf8.h"

namespace incipit::jinja {

struct CodePoint {
  uint32_t value = 0;
  size_t size = 0;  // bytes
};

// REQUIRES: offset < bytes.size(), at the start of a well-formed character.
inline CodePoint DecodeAt(std::string_view bytes, size_t offset) {
  size_t end = offset;
  const char32_t value = NextCodePoint(bytes, end);
  return {value, end - offset};
}
size_t CountCodePoints(std::string_view bytes);
// The byte offset of the character with this index, from a known offset on; bytes.size() at the
// end.
size_t OffsetOfChar(std::string_view bytes, size_t offset, size_t num_chars);

bool IsSpace(uint32_t c);      // str.isspace, and \s of re
bool IsLineBreak(uint32_t c);  // where str.splitlines splits
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
int DecimalValue(uint32_t c);  // -1 if it is not a decimal digit

}  // namespace incipit::jinja
