// The case mappings of single characters, whatever stands around them.
#pragma once

#include <cstdint>
#include <string>

namespace incipit {

enum class CaseMapping : uint8_t { kLower, kUpper, kTitle, kFold };

void AppendMappedBeyondAscii(char32_t character, CaseMapping mapping, std::string& text);

// Appends the one to three characters that Python's str makes of a character.
inline void AppendMapped(char32_t character, CaseMapping mapping, std::string& text) {
  if (character >= 0x80) return AppendMappedBeyondAscii(character, mapping, text);
  const bool to_upper = mapping == CaseMapping::kUpper || mapping == CaseMapping::kTitle;
  const char32_t first = to_upper ? 'a' : 'A';
  const bool is_mapped = character >= first && character < first + 26;
  text += static_cast<char>(is_mapped ? character ^ ('a' ^ 'A') : character);
}

// Appends the one or two characters that Rust's char::to_lowercase makes of a character.
void AppendLowercase(char32_t character, std::string& text);

}  // namespace incipit
