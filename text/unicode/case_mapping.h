// Maps single characters to lower case, upper case, title case or folded case. The neighbouring
// characters do not change the result.
#pragma once

#include <cstdint>
#include <string>

namespace incipit {

enum class CaseMapping : uint8_t { kLower, kUpper, kTitle, kFold };

void AppendMappedBeyondAscii(char32_t character, CaseMapping mapping, std::string& text);

// Appends the result of a case mapping of `character` to `text`, as Python's str methods (such as
// str.lower) define the mapping. The result has one to three characters.
inline void AppendMapped(char32_t character, CaseMapping mapping, std::string& text) {
  if (character >= 0x80) return AppendMappedBeyondAscii(character, mapping, text);
  const bool to_upper = mapping == CaseMapping::kUpper || mapping == CaseMapping::kTitle;
  const char32_t first = to_upper ? 'a' : 'A';
  const bool is_mapped = character >= first && character < first + 26;
  text += static_cast<char>(is_mapped ? character ^ ('a' ^ 'A') : character);
}

// Appends the lower-case form of `character` to `text`, as Rust's char::to_lowercase defines this
// form. The form has one or two characters.
void AppendLowercase(char32_t character, std::string& text);

}  // namespace incipit
