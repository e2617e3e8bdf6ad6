// Case mappings of single characters. The mapping does not depend on the neighbouring characters.
#pragma once

#include <cstdint>
#include <string>

namespace incipit {

enum class CaseMapping : uint8_t { kLower, kUpper, kTitle, kFold };

void AppendMappedBeyondAscii(char32_t character, CaseMapping mapping, std::string& text);

// Appends the one to three characters to which the str methods of Python map `character`.
inline void AppendMapped(char32_t character, CaseMapping mapping, std::string& text) {
  if (character >= 0x80) return AppendMappedBeyondAscii(character, mapping, text);
  const bool to_upper = mapping == CaseMapping::kUpper || mapping == CaseMapping::kTitle;
  const char32_t first = to_upper ? 'a' : 'A';
  const bool is_mapped = character >= first && character < first + 26;
  text += static_cast<char>(is_mapped ? character ^ ('a' ^ 'A') : character);
}

// Appends the one or two characters to which char::to_lowercase of Rust maps `character`.
void AppendLowercase(char32_t character, std::string& text);

}  // namespace incipit
