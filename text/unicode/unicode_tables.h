// Tables of the characters for which the libraries utf8proc and PCRE2 have other properties than
// Hugging Face tokenizers (Unicode 11 to 17, depending on the part) or Python's str (Unicode 14).
// The script tools/make_unicode_tables.py generates the tables.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>

namespace incipit {

// The characters from `first` to `last` (inclusive), whose property differs from the library.
// `value` is the correct property:
// - Table of general categories: the number of the category.
// - Table of a set: 1 if the set contains the characters, 0 if not.
// - Table of a case mapping: the result for the character `first`, at most three characters with 20
//   bits each. The lowest bits contain the first character of the result. The result for the
//   character `first` + i is `value` + i.
struct UnicodeException {
  char32_t first, last;
  int64_t value;
};
// Exceptions in ascending order of their ranges.
using UnicodeExceptions = std::span<const UnicodeException>;

// Returns the exception whose range contains `character`. Returns null if no range contains
// `character`.
inline const UnicodeException* FindException(UnicodeExceptions exceptions, char32_t character) {
  const auto found = std::ranges::lower_bound(exceptions, character, {}, &UnicodeException::last);
  return found != exceptions.end() && found->first <= character ? &*found : nullptr;
}

// Characters whose general category differs from the category in the library utf8proc.
extern const UnicodeExceptions kRegexCategories, kPythonCategories;

// Exceptions for sets of characters. Without the exceptions, a set contains all characters of the
// general categories that unicode_tables.cpp names.
extern const UnicodeExceptions kRustNumeric, kRustPunctuation, kRustWord, kRustMark,
    kInertInNormalForms, kPythonDigit, kPythonNumeric, kPythonLowercase, kPythonUppercase,
    kPythonCaseIgnorable;

// Characters whose case mapping differs from the mapping in the library utf8proc.
extern const UnicodeExceptions kRustLower, kPythonLower, kPythonUpper, kPythonTitle;

// Characters for which a script or another property in regular expressions differs from the library
// PCRE2.
struct NamedExceptions {
  std::string_view name;  // name of the script or property, in lower case
  UnicodeExceptions exceptions;
};
extern const std::span<const NamedExceptions> kRegexProperties;

}  // namespace incipit
