// Unicode normal forms (such as NFC) and the Unicode property White_Space, with the same results as
// Hugging Face tokenizers.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "text/unicode/code_point_set.h"

namespace incipit {

// Returns true if `character` has the Unicode property White_Space (spaces, tabs and line breaks).
inline bool IsWhitespace(char32_t character) {
  if (character < 0x80) return (character >= 9 && character <= 13) || character == ' ';
  return character == 0x85 || character == 0xA0 || character == 0x1680 ||
         (character >= 0x2000 && character <= 0x200A) || character == 0x2028 ||
         character == 0x2029 || character == 0x202F || character == 0x205F || character == 0x3000;
}

enum class NormalForm : uint8_t { kNfc, kNfd, kNfkc, kNfkd };

// Converts text to a Unicode normal form, such as NFC. Immutable.
class Normalization {
 public:
  explicit Normalization(NormalForm form);

  // Receives the normalized text in pieces, from left to right. `text` is the normalized form of
  // the range [begin, end) of the original text.
  using Sink = absl::FunctionRef<void(size_t begin, size_t end, std::string_view text)>;
  void Apply(std::string_view text, Sink emit) const;

 private:
  class Part;

  // Bits of a character in `kinds_`.
  enum Kind : uint8_t {
    // Normalization may change the character, or combine it with the previous character.
    kUnstable = 1,
    kDecomposes = 2,  // the character has a decomposition
    kInert = 4,       // normalization never changes, combines or moves the character
  };
  bool IsStable(char32_t character) const { return (kinds_[character] & kUnstable) == 0; }

  NormalForm form_;
  CodePointMap kinds_;
  CodePointMap classes_;  // Canonical_Combining_Class (Unicode) of each character
};

}  // namespace incipit
