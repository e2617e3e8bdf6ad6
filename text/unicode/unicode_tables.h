// The differences between the packaged libraries' knowledge of Unicode (utf8proc, PCRE2) and that
// of the references which tokenizers and templates follow: parts of the reference tokenizer, which
// have versions of Unicode from 11 to 17, and Python's str, which has version 14.
// tools/make_unicode_tables.py finds the differences.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>

namespace incipit {

// The value of some property for the characters from `first` to `last`:
// - a general category: the number of the category;
// - a set: 1 for its members, 0 for others;
// - a case mapping: what `first` becomes, up to three characters of 20 bits each, the first one in
//   the lowest bits. It grows by one from each character of the range to the next.
struct UnicodeException {
  char32_t first, last;
  int64_t value;
};
using UnicodeExceptions = std::span<const UnicodeException>;  // ascending

// Returns the exception that covers a character, or null.
inline const UnicodeException* FindException(UnicodeExceptions exceptions, char32_t character) {
  const auto found = std::ranges::lower_bound(exceptions, character, {}, &UnicodeException::last);
  return found != exceptions.end() && found->first <= character ? &*found : nullptr;
}

// General categories, beside those of utf8proc.
extern const UnicodeExceptions kRegexCategories, kPythonCategories;

// Sets, beside what the comments in the source name.
extern const UnicodeExceptions kRustNumeric, kRustPunctuation, kRustWord, kRustMark,
    kInertInNormalForms, kPythonDigit, kPythonNumeric, kPythonLowercase, kPythonUppercase,
    kPythonCaseIgnorable;

// Case mappings, beside those of utf8proc.
extern const UnicodeExceptions kRustLower, kPythonLower, kPythonUpper, kPythonTitle;

// Scripts and other properties of expressions, beside those of PCRE2.
struct NamedExceptions {
  std::string_view name;  // small letters only
  UnicodeExceptions exceptions;
};
extern const std::span<const NamedExceptions> kRegexProperties;

}  // namespace incipit
