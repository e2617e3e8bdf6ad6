// Converts single characters to lower case, upper case, title case or folded case. The result does
// not depend on the neighbouring characters.
#pragma once

#include <cstdint>
#include <string>

namespace incipit {

enum class CaseMapping : uint8_t { kLower, kUpper, kTitle, kFold };

void AppendMappedBeyondAscii(char32_t character, CaseMapping mapping, std::string& text);

// Converts `character` as Python's str methods do (such as str.lower), and appends the result to
// `text`. The result has one to three characters.
inline void AppendMapped(char32_t character, CaseMapping mapping, std::string& text) {
  if (character >= 0x80) return AppendMappedBeyondAscii(character, mapping, text);
  const bool to_upper = mapping == CaseMapping::kUpper || mapping == CaseMapping::kTitle;
  const char32_t first = to_upper ? 'a' : 'A';
  const bool is_mapped = character >= first && character < first + 26;
  text += static_cast<char>(is_mapped ? character ^ ('a' ^ 'A') : character);
}

// Converts `character` to lower case as Rust's char::to_lowercase does, and appends the result to
// `text`. The result has one or two characters.
void AppendLowercase(char32_t character, std::string& text);

}  // namespace incipit
