// Blanks and the Unicode normal forms, as the reference tokenizer has them.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/functional/function_ref.h"

namespace incipit {

// White_Space.
inline bool IsWhitespace(char32_t character) {
  if (character < 0x80) return (character >= 9 && character <= 13) || character == ' ';
  return character == 0x85 || character == 0xA0 || character == 0x1680 ||
         (character >= 0x2000 && character <= 0x200A) || character == 0x2028 ||
         character == 0x2029 || character == 0x202F || character == 0x205F || character == 0x3000;
}

enum class NormalForm : uint8_t { kNfc, kNfd, kNfkc, kNfkd };

// Calls `emit` with parts of the text, in order: [begin, end) of it and what they become. Parts
// that stay as they are come with their own text.
using NormalFormSink = absl::FunctionRef<void(size_t begin, size_t end, std::string_view text)>;
void Normalize(NormalForm form, std::string_view text, NormalFormSink emit);

}  // namespace incipit
