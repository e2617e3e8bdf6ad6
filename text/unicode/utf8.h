// UTF-8: reading, writing, checking, and repairing it while it arrives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace incipit {

inline constexpr char32_t kCodePointMax = 0x10FFFF;
inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

bool IsUtf8(std::string_view text);

// Bytes of the character that begins with this byte of valid UTF-8.
constexpr size_t Utf8Length(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

// The character at `position`, which moves behind it. REQUIRES: valid UTF-8, not at the end.
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

// Where the character that ends at `position` begins. REQUIRES: valid UTF-8, not at the start.
inline size_t PreviousCharacter(std::string_view text, size_t position) {
  do {
    --position;
  } while ((static_cast<unsigned char>(text[position]) & 0xC0) == 0x80);
  return position;
}

void AppendUtf8(char32_t code_point, std::string& text);

// How many bytes at the start of `bytes` are one whole character, or the longest start of one.
struct Utf8Step {
  size_t length = 0;  // at least 1; of an invalid sequence, the part that one U+FFFD replaces
  enum Kind : uint8_t { kCharacter, kInvalid, kIncomplete } kind = kCharacter;
};
// REQUIRES: not empty.
Utf8Step NextUtf8Step(std::string_view bytes);

// Turns bytes into valid UTF-8 while they arrive: every maximal part of a broken character becomes
// U+FFFD (Unicode 16, section 3.9, "U+FFFD Substitution of Maximal Subparts").
class Utf8Repair {
 public:
  // Appends what is certain to `text`; at most three bytes stay behind.
  void Push(std::string_view bytes, std::string& text);
  void Flush(std::string& text);

 private:
  std::string pending_;
};

}  // namespace incipit
