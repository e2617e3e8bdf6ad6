#include "text/jinja/unicode.h"

#include <algorithm>
#include <span>

#include "text/jinja/unicode_tables.h"

namespace incipit::jinja {
namespace {

bool Contains(std::span<const uint32_t> toggles, uint32_t c) {
  const auto it = std::upper_bound(toggles.begin(), toggles.end(), c);
  return (it - toggles.begin()) % 2 == 1;
}

bool AppendSpecial(std::string& bytes, std::span<const CaseSpecial> specials, uint32_t c) {
  const auto it = std::lower_bound(
      specials.begin(), specials.end(), c,
      [](const CaseSpecial& special, uint32_t value) { return special.code_point < value; });
  if (it == specials.end() || it->code_point != c) return false;
  for (const uint32_t mapped : it->mapped) {
    if (mapped != 0) AppendUtf8(bytes, mapped);
  }
  return true;
}

bool AppendRange(std::string& bytes, std::span<const CaseRange> ranges, uint32_t c) {
  const auto it =
      std::lower_bound(ranges.begin(), ranges.end(), c,
                       [](const CaseRange& range, uint32_t value) { return range.last < value; });
  if (it == ranges.end() || c < it->first || (c - it->first) % it->step != 0) return false;
  AppendUtf8(bytes, static_cast<uint32_t>(static_cast<int64_t>(c) + it->delta));
  return true;
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
  if (c < 0x80) return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool IsLineBreak(uint32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

bool IsAlphabetic(uint32_t c) { return Contains(kAlphabetic, c); }
bool IsDecimal(uint32_t c) { return Contains(kDecimal, c); }
bool IsDigit(uint32_t c) { return Contains(kDigit, c); }
bool IsNumeric(uint32_t c) { return Contains(kNumeric, c); }
bool IsAlphanumeric(uint32_t c) {
  return IsAlphabetic(c) || IsDecimal(c) || IsDigit(c) || IsNumeric(c);
}
bool IsLowercase(uint32_t c) { return Contains(kLowercase, c); }
bool IsUppercase(uint32_t c) { return Contains(kUppercase, c); }
bool IsTitlecase(uint32_t c) { return Contains(kTitlecase, c); }
bool IsCased(uint32_t c) { return IsLowercase(c) || IsUppercase(c) || IsTitlecase(c); }
bool IsCaseIgnorable(uint32_t c) { return Contains(kCaseIgnorable, c); }
bool IsPrintable(uint32_t c) { return Contains(kPrintable, c); }
bool IsIdentifierStart(uint32_t c) { return Contains(kIdentifierStart, c); }
bool IsIdentifierContinue(uint32_t c) { return Contains(kIdentifierContinue, c); }

int DecimalValue(uint32_t c) {
  if (c >= '0' && c <= '9') return static_cast<int>(c - '0');
  if (c < 0x80) return -1;
  // Decimal digits come in runs of ten (or of several tens), each from zero to nine.
  const auto it = std::upper_bound(kDecimal.begin(), kDecimal.end(), c);
  if ((it - kDecimal.begin()) % 2 == 0) return -1;
  return static_cast<int>((c - *(it - 1)) % 10);
}

void AppendMapped(std::string& bytes, uint32_t c, CaseMapping mapping) {
  if (c < 0x80) {
    const bool lower = c >= 'a' && c <= 'z';
    const bool upper = c >= 'A' && c <= 'Z';
    const bool to_upper = mapping == CaseMapping::kUpper || mapping == CaseMapping::kTitle;
    bytes += static_cast<char>(to_upper && lower ? c - 32 : !to_upper && upper ? c + 32 : c);
    return;
  }
  if (mapping == CaseMapping::kTitle) {
    if (AppendSpecial(bytes, kToTitleUnlikeUpperSpecial, c)) return;
    if (AppendRange(bytes, kToTitleUnlikeUpper, c)) return;
  }
  if (mapping == CaseMapping::kFold) {
    if (AppendSpecial(bytes, kToFoldUnlikeLowerSpecial, c)) return;
    if (AppendRange(bytes, kToFoldUnlikeLower, c)) return;
  }
  const bool to_lower = mapping == CaseMapping::kLower || mapping == CaseMapping::kFold;
  if (AppendSpecial(bytes, to_lower ? kToLowerSpecial : kToUpperSpecial, c)) return;
  if (AppendRange(bytes, to_lower ? kToLower : kToUpper, c)) return;
  AppendUtf8(bytes, c);
}

}  // namespace incipit::jinja
