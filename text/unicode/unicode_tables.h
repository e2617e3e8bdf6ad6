// Differences in Unicode data between the libraries (utf8proc, PCRE2) and the references that
// tokenizers and templates follow. The references are the parts of Hugging Face tokenizers, with
// Unicode versions from 11 to 17, and Python's str with Unicode 14. tools/make_unicode_tables.py
// finds the differences.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>

namespace incipit {

// The value of a property for the characters from `first` to `last`:
// - general category: the number of the category;
// - set: 1 if the set contains the characters, 0 if not;
// - case mapping: the characters to which `first` maps, at most three. Each of these characters
//   takes 20 bits, and the first takes the lowest 20 bits. From one character of the range to the
//   next, the value grows by 1.
struct UnicodeException {
  char32_t first, last;
  int64_t value;
};
using UnicodeExceptions = std::span<const UnicodeException>;  // ranges in ascending order

// Returns the exception that covers `character`, or null.
inline const UnicodeException* FindException(UnicodeExceptions exceptions, char32_t character) {
  const auto found = std::ranges::lower_bound(exceptions, character, {}, &UnicodeException::last);
  return found != exceptions.end() && found->first <= character ? &*found : nullptr;
}

// Exceptions to the general categories of utf8proc.
extern const UnicodeExceptions kRegexCategories, kPythonCategories;

// Exceptions to sets of general categories. unicode_tables.cpp names the categories of each set.
extern const UnicodeExceptions kRustNumeric, kRustPunctuation, kRustWord, kRustMark,
    kInertInNormalForms, kPythonDigit, kPythonNumeric, kPythonLowercase, kPythonUppercase,
    kPythonCaseIgnorable;

// Exceptions to the case mappings of utf8proc.
extern const UnicodeExceptions kRustLower, kPythonLower, kPythonUpper, kPythonTitle;

// Exceptions to the scripts and other properties of PCRE2, for regular expressions.
struct NamedExceptions {
  std::string_view name;  // name of the property, in lower case
  UnicodeExceptions exceptions;
};
extern const std::span<const NamedExceptions> kRegexProperties;

}  // namespace incipit
