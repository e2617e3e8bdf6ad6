// Tables of characters for which the libraries utf8proc and PCRE2 return wrong properties. The
// correct properties are those of Hugging Face tokenizers (Unicode 11 to 17, depending on the part)
// or Python's str (Unicode 14). The script tools/make_unicode_tables.py generates the tables.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>

namespace incipit {

// Corrects a property that a library (utf8proc or PCRE2) returns wrongly for the characters from
// `first` to `last` (inclusive). The meaning of `value` depends on the table:
// - General categories: the number of the category.
// - Set of characters: 1 if the set contains the characters, 0 if not.
// - Case mapping: up to three mapped characters, 20 bits each, the first in the lowest bits. For a
//   character c after `first`, add (c - `first`) to `value`.
struct UnicodeException {
  char32_t first, last;
  int64_t value;
};
// A table of characters with a wrong property in a library, in ascending order of the ranges.
using UnicodeExceptions = std::span<const UnicodeException>;

// Returns the exception whose range contains `character`. Returns null if no range contains
// `character`.
inline const UnicodeException* FindException(UnicodeExceptions exceptions, char32_t character) {
  const auto found = std::ranges::lower_bound(exceptions, character, {}, &UnicodeException::last);
  return found != exceptions.end() && found->first <= character ? &*found : nullptr;
}

// Characters for which the library utf8proc returns a wrong general category.
extern const UnicodeExceptions kRegexCategories, kPythonCategories;

// Corrections of sets of characters. Before the correction, a set is the union of some general
// categories. The comment of each table in unicode_tables.cpp names these categories.
extern const UnicodeExceptions kRustNumeric, kRustPunctuation, kRustWord, kRustMark,
    kInertInNormalForms, kPythonDigit, kPythonNumeric, kPythonLowercase, kPythonUppercase,
    kPythonCaseIgnorable;

// Characters for which the library utf8proc returns a wrong case mapping.
extern const UnicodeExceptions kRustLower, kPythonLower, kPythonUpper, kPythonTitle;

// Characters for which the library PCRE2 returns a wrong script or property.
struct NamedExceptions {
  std::string_view name;  // name of the script or property, in lower case
  UnicodeExceptions exceptions;
};
extern const std::span<const NamedExceptions> kRegexProperties;

}  // namespace incipit
