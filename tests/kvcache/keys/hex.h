// Converts bytes to hexadecimal text, so that a failed comparison prints readable values.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace incipit {

inline std::string Hex(std::span<const uint8_t> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace incipit
