#include "text/jinja/runtime/python_characters.h"

#include <algorithm>
#include <span>
#include <vector>

#include "text/unicode/categories.h"
#include "text/unicode/code_point_set.h"
#include "text/unicode/unicode.h"
#include "text/unicode/utf8.h"

namespace incipit::jinja {
namespace {

// Bits for what Python's str says of a character. A title case letter has both bits of case.
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

CodePoint DecodeAt(std::string_view bytes, size_t offset) {
  const auto byte = [&](size_t i) -> uint32_t {
    return offset + i < bytes.size() ? static_cast<uint8_t>(bytes[offset + i]) : 0x80;
  };
  const uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0) return {((lead & 0x1F) << 6) | (byte(1) & 0x3F), 2};
  if (lead < 0xF0) {
    return {((lead & 0x0F) << 12) | ((byte(1) & 0x3F) << 6) | (byte(2) & 0x3F), 3};
  }
  return {
      ((lead & 0x07) << 18) | ((byte(1) & 0x3F) << 12) | ((byte(2) & 0x3F) << 6) | (byte(3) & 0x3F),
      4};
}

void AppendUtf8(std::string& bytes, uint32_t c) {
  const auto tail = [&](int shift) { bytes += static_cast<char>(0x80 | ((c >> shift) & 0x3F)); };
  if (c < 0x80) {
    bytes += static_cast<char>(c);
  } else if (c < 0x800) {
    bytes += static_cast<char>(0xC0 | (c >> 6));
    tail(0);
  } else if (c < 0x10000) {
    bytes += static_cast<char>(0xE0 | (c >> 12));
    tail(6);
    tail(0);
  } else {
    bytes += static_cast<char>(0xF0 | (c >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

bool IsValidUtf8(std::string_view bytes) {
  size_t i = 0;
  while (i < bytes.size()) {
    const uint8_t lead = static_cast<uint8_t>(bytes[i]);
    if (lead < 0x80) {
      ++i;
      continue;
    }
    const size_t size = lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
    if (size == 0 || size > bytes.size() - i) return false;
    for (size_t j = 1; j < size; ++j) {
      if ((static_cast<uint8_t>(bytes[i + j]) & 0xC0) != 0x80) return false;
    }
    const uint32_t c = DecodeAt(bytes, i).value;
    if ((size == 3 && c < 0x800) || (size == 4 && (c < 0x10000 || c > 0x10FFFF))) return false;
    if (c >= 0xD800 && c <= 0xDFFF) return false;
    i += size;
  }
  return true;
}

bool HasSurrogates(std::string_view bytes) {
  for (size_t i = 0; i + 1 < bytes.size(); ++i) {
    if (static_cast<uint8_t>(bytes[i]) == 0xED && static_cast<uint8_t>(bytes[i + 1]) >= 0xA0) {
      return true;
    }
  }
  return false;
}

size_t CountCodePoints(std::string_view bytes) {
  return static_cast<size_t>(std::count_if(bytes.begin(), bytes.end(), [](char byte) {
    return (static_cast<uint8_t>(byte) & 0xC0) != 0x80;
  }));
}

size_t OffsetOfChar(std::string_view bytes, size_t offset, size_t num_chars) {
  for (; num_chars > 0 && offset < bytes.size(); --num_chars) {
    offset += DecodeAt(bytes, offset).size;
  }
  return std::min(offset, bytes.size());
}

size_t PreviousChar(std::string_view bytes, size_t offset) {
  do {
    --offset;
  } while (offset > 0 && (static_cast<uint8_t>(bytes[offset]) & 0xC0) == 0x80);
  return offset;
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
  // Decimal digits come in runs of ten (or of several tens), each from zero to nine.
  uint32_t zero = c;
  while (IsDecimal(zero - 1)) --zero;
  return static_cast<int>((c - zero) % 10);
}

}  // namespace incipit::jinja
