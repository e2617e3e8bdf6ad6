// Functions to read, write and validate UTF-8. The class Utf8Repair replaces invalid bytes in a
// stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace incipit {

inline constexpr char32_t kCodePointMax = 0x10FFFF;
inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

bool IsUtf8(std::string_view text);

// Returns true if the eight bytes of `text` from `position` on exist and are ASCII characters.
inline bool AreAscii(std::string_view text, size_t position) {
  uint64_t bytes;
  if (position + sizeof(bytes) > text.size()) return false;
  std::memcpy(&bytes, text.data() + position, sizeof(bytes));
  return (bytes & 0x8080808080808080u) == 0;
}

// Returns the length in bytes of the UTF-8 character with the first byte `first`. REQUIRES: `first`
// is the first byte of a valid UTF-8 character.
constexpr size_t Utf8Length(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

// Returns the character that begins at `position`, and moves `position` behind the character.
// REQUIRES: `text` is valid UTF-8, and `position` is less than text.size().
inline char32_t NextCodePoint(std::string_view text, size_t& position) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[position + i]); };
  const char32_t first = byte(0);
  if (first < 0x80) {
    ++position;
    return first;
  }
  const size_t length = Utf8Length(text[position]);
  char32_t code_point = first & (0x7F >> length);
  for (size_t i = 1; i < length; ++i) code_point = code_point << 6 | (byte(i) & 0x3F);
  position += length;
  return code_point;
}

// Returns the byte offset at which the character before `position` begins. REQUIRES: `text` is
// valid UTF-8, and `position` is greater than 0.
inline size_t PreviousCharacter(std::string_view text, size_t position) {
  do {
    --position;
  } while ((static_cast<unsigned char>(text[position]) & 0xC0) == 0x80);
  return position;
}

void AppendUtf8(char32_t code_point, std::string& text);

// The first step of decoding a byte string: a valid character, an invalid sequence of bytes, or an
// incomplete character at the end of the string.
struct Utf8Step {
  // Number of decoded bytes, at least 1. If `kind` is kInvalid, one U+FFFD replaces these bytes.
  size_t length = 0;
  enum Kind : uint8_t { kCharacter, kInvalid, kIncomplete } kind = kCharacter;
};
// Decodes the first character of `bytes`. REQUIRES: `bytes` is not empty.
Utf8Step NextUtf8Step(std::string_view bytes);

// Converts a stream of bytes to valid UTF-8. U+FFFD replaces each invalid sequence of bytes, as in
// Unicode 16, section 3.9, "U+FFFD Substitution of Maximal Subparts".
class Utf8Repair {
 public:
  // Adds `bytes` to the stream. Appends the complete characters to `text`. Holds back up to three
  // bytes of an incomplete character for the next call.
  void Push(std::string_view bytes, std::string& text);
  void Flush(std::string& text);

 private:
  std::string pending_;
};

}  // namespace incipit
