#include "text/unicode/categories.h"

#include <utf8proc.h>

#include "text/unicode/utf8.h"

namespace incipit {

static_assert(category::kCn == 1u << UTF8PROC_CATEGORY_CN);
static_assert(category::kPo == 1u << UTF8PROC_CATEGORY_PO);
static_assert(category::kCo == 1u << UTF8PROC_CATEGORY_CO);

std::vector<UnicodeException> CategoryRanges(UnicodeExceptions exceptions) {
  // Code points in [0x40000, 0xE0000) are not assigned to characters.
  constexpr char32_t kUnusedBegin = 0x40000, kUnusedEnd = 0xE0000;
  std::vector<UnicodeException> ranges;
  const auto add = [&](char32_t first, char32_t last, int64_t value) {
    if (!ranges.empty() && ranges.back().value == value) {
      ranges.back().last = last;
    } else {
      ranges.push_back({first, last, value});
    }
  };
  const auto add_of_library = [&](char32_t begin, char32_t end) {
    for (char32_t c = begin; c < end; ++c) {
      if (c == kUnusedBegin) c = kUnusedEnd - 1;
      add(c, c, utf8proc_category(static_cast<utf8proc_int32_t>(c)));
    }
  };
  char32_t next = 0;
  for (const auto& [first, last, value] : exceptions) {
    add_of_library(next, first);
    add(first, last, value);
    next = last + 1;
  }
  add_of_library(next, kCodePointMax + 1);
  return ranges;
}

CodePointSet CharactersOf(UnicodeExceptions category_ranges, CategoryMask categories,
                          UnicodeExceptions exceptions) {
  CodePointSet set;
  for (const UnicodeException& range : category_ranges) {
    if (categories >> range.value & 1) set.Add(range.first, range.last);
  }
  Apply(exceptions, set);
  return set;
}

void Apply(UnicodeExceptions exceptions, CodePointSet& set) {
  for (const auto& [first, last, value] : exceptions) {
    if (value != 0) {
      set.Add(first, last);
    } else {
      set.Remove(first, last);
    }
  }
}

}  // namespace incipit
