// Reads, writes and checks UTF-8, and repairs invalid UTF-8 in bytes that arrive in pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace incipit {

inline constexpr char32_t kCodePointMax = 0x10FFFF;
inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

bool IsUtf8(std::string_view text);

// Returns the length in bytes of the character whose first byte is `first`. REQUIRES: `first`
// begins a character of valid UTF-8.
constexpr size_t Utf8Length(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

// Returns the character at `position` and moves `position` to the end of the character. REQUIRES:
// `text` is valid UTF-8, and `position` is less than text.size().
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

// Returns the start of the character that ends at `position`. REQUIRES: `text` is valid UTF-8, and
// `position` is not 0.
inline size_t PreviousCharacter(std::string_view text, size_t position) {
  do {
    --position;
  } while ((static_cast<unsigned char>(text[position]) & 0xC0) == 0x80);
  return position;
}

void AppendUtf8(char32_t code_point, std::string& text);

// The first part of a sequence of bytes: one character, an invalid part, or an incomplete character
// at the end of the bytes.
struct Utf8Step {
  size_t length = 0;  // in bytes, at least 1; one U+FFFD replaces the bytes of a kInvalid part
  enum Kind : uint8_t { kCharacter, kInvalid, kIncomplete } kind = kCharacter;
};
// Returns the first part of `bytes`. REQUIRES: `bytes` is not empty.
Utf8Step NextUtf8Step(std::string_view bytes);

// Converts bytes that arrive in pieces to valid UTF-8. Every maximal part of a broken character
// becomes U+FFFD (Unicode 16, section 3.9, "U+FFFD Substitution of Maximal Subparts").
class Utf8Repair {
 public:
  // Appends to `text` all characters that later bytes cannot change. At most three bytes are held
  // back.
  void Push(std::string_view bytes, std::string& text);
  void Flush(std::string& text);

 private:
  std::string pending_;
};

}  // namespace incipit
