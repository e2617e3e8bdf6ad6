#include "text/jinja/runtime/python_characters.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "text/unicode/categories.h"
#include "text/unicode/code_point_set.h"
#include "text/unicode/unicode.h"

namespace incipit::jinja {
namespace {

// Properties of a character, one per bit, for Python's str methods such as str.isalpha(). A
// title-case letter has both bits kLower and kUpper.
constexpr uint8_t kLetter = 1 << 0, kNumeric = 1 << 1, kDigit = 1 << 2, kDecimal = 1 << 3,
                  kLower = 1 << 4, kUpper = 1 << 5, kPrintable = 1 << 6, kIgnorable = 1 << 7,
                  kTitle = kLower | kUpper, kCase = kTitle;

CodePointMap MakeProperties() {
  const std::vector<UnicodeException> ranges = CategoryRanges(kPythonCategories);
  constexpr CategoryMask kCaseIgnorable =
      category::kMn | category::kMe | category::kCf | category::kLm | category::kSk;
  CodePointMap map;
  map.AddBits(CharactersOf(ranges, category::kL), kLetter);
  map.AddBits(CharactersOf(ranges, category::kN, kPythonNumeric), kNumeric);
  map.AddBits(CharactersOf(ranges, category::kNd, kPythonDigit), kDigit);
  map.AddBits(CharactersOf(ranges, category::kNd), kDecimal);
  map.AddBits(CharactersOf(ranges, category::kLl, kPythonLowercase), kLower);
  map.AddBits(CharactersOf(ranges, category::kLu, kPythonUppercase), kUpper);
  map.AddBits(CharactersOf(ranges, category::kLt), kTitle);
  map.AddBits(CharactersOf(ranges, category::kAny & ~category::kC & ~category::kZ), kPrintable);
  map.AddBits(CodePointSet({{' ', ' '}}), kPrintable);
  map.AddBits(CharactersOf(ranges, kCaseIgnorable, kPythonCaseIgnorable), kIgnorable);
  return map;
}

uint8_t Properties(uint32_t c) {
  static const auto& map = *new CodePointMap(MakeProperties());
  return c <= kCodePointMax ? map[c] : 0;
}

}  // namespace

// Returns the number of characters: the number of all bytes, minus the number of continuation bytes
// of UTF-8. Checks eight bytes at a time.
size_t CountCodePoints(std::string_view bytes) {
  constexpr uint64_t kOnes = 0x0101010101010101;
  size_t num_continued = 0, i = 0;
  for (uint64_t word; i + sizeof(word) <= bytes.size(); i += sizeof(word)) {
    std::memcpy(&word, bytes.data() + i, sizeof(word));
    num_continued += ((word >> 7 & ~(word >> 6) & kOnes) * kOnes) >> 56;
  }
  for (; i < bytes.size(); ++i) num_continued += (static_cast<uint8_t>(bytes[i]) & 0xC0) == 0x80;
  return bytes.size() - num_continued;
}

size_t OffsetOfChar(std::string_view bytes, size_t offset, size_t num_chars) {
  for (; num_chars > 0 && offset < bytes.size(); --num_chars) {
    offset += DecodeAt(bytes, offset).size;
  }
  return std::min(offset, bytes.size());
}

bool IsSpace(uint32_t c) {
  if (c < 0x80) [[likely]]
    return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20);
  return IsWhitespace(c);
}

bool IsLineBreak(uint32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

bool IsAlphabetic(uint32_t c) { return Properties(c) & kLetter; }
bool IsDecimal(uint32_t c) { return Properties(c) & kDecimal; }
bool IsDigit(uint32_t c) { return Properties(c) & kDigit; }
bool IsNumeric(uint32_t c) { return Properties(c) & kNumeric; }
bool IsAlphanumeric(uint32_t c) { return Properties(c) & (kLetter | kNumeric); }
bool IsLowercase(uint32_t c) { return (Properties(c) & kCase) == kLower; }
bool IsUppercase(uint32_t c) { return (Properties(c) & kCase) == kUpper; }
bool IsTitlecase(uint32_t c) { return (Properties(c) & kCase) == kTitle; }
bool IsCased(uint32_t c) { return Properties(c) & kCase; }
bool IsCaseIgnorable(uint32_t c) { return Properties(c) & kIgnorable; }
bool IsPrintable(uint32_t c) { return Properties(c) & kPrintable; }

int DecimalValue(uint32_t c) {
  if (c >= '0' && c <= '9') return static_cast<int>(c - '0');
  if (c < 0x80 || !IsDecimal(c)) return -1;
  // Decimal digits form groups of ten consecutive characters with the values 0 to 9. `zero` becomes
  // a digit of value 0, in the group of `c` or in an earlier adjacent group.
  uint32_t zero = c;
  while (IsDecimal(zero - 1)) --zero;
  return static_cast<int>((c - zero) % 10);
}

}  // namespace incipit::jinja
