#include "text/tokenizer/byte_alphabet.h"

#include <array>
#include <cstdint>

#include "text/unicode/utf8.h"

namespace incipit {
namespace {

constexpr bool IsPrintable(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr std::array<char16_t, 256> kCharacterOf = [] {
  std::array<char16_t, 256> table{};
  char16_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    table[byte] = IsPrintable(byte) ? static_cast<char16_t>(byte) : next++;
  }
  return table;
}();

// kByteOf[c] is the byte for which the character c stands in the byte alphabet, or -1.
constexpr std::array<int16_t, 0x144> kByteOf = [] {
  std::array<int16_t, 0x144> table{};
  for (int16_t& byte : table) byte = -1;
  for (int byte = 0; byte < 256; ++byte) table[kCharacterOf[byte]] = static_cast<int16_t>(byte);
  return table;
}();

}  // namespace

void AppendByteCharacters(std::string_view bytes, std::string& text) {
  for (const char byte : bytes) AppendUtf8(kCharacterOf[static_cast<unsigned char>(byte)], text);
}

std::optional<std::string> BytesOfCharacters(std::string_view token) {
  std::string bytes;
  for (size_t position = 0; position < token.size();) {
    const char32_t character = NextCodePoint(token, position);
    if (character >= kByteOf.size() || kByteOf[character] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(kByteOf[character]));
  }
  return bytes;
}

}  // namespace incipit
