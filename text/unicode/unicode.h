// White space and the Unicode normal forms, as in Hugging Face tokenizers.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "text/unicode/code_point_set.h"

namespace incipit {

// Returns true if `character` has the Unicode property White_Space.
inline bool IsWhitespace(char32_t character) {
  if (character < 0x80) return (character >= 9 && character <= 13) || character == ' ';
  return character == 0x85 || character == 0xA0 || character == 0x1680 ||
         (character >= 0x2000 && character <= 0x200A) || character == 0x2028 ||
         character == 0x2029 || character == 0x202F || character == 0x205F || character == 0x3000;
}

enum class NormalForm : uint8_t { kNfc, kNfd, kNfkc, kNfkd };

// Converts texts to one of the Unicode normal forms. Immutable.
class Normalization {
 public:
  explicit Normalization(NormalForm form);

  // Receives the parts of a text, in order. The part [begin, end) of the original text becomes
  // `text`, which may be equal to the part.
  using Sink = absl::FunctionRef<void(size_t begin, size_t end, std::string_view text)>;
  void Apply(std::string_view text, Sink emit) const;

 private:
  class Part;

  // Bits of a character in `kinds_`.
  enum Kind : uint8_t {
    kUnstable = 1,    // normalization may change the character or combine it with the previous one
    kDecomposes = 2,  // the decomposition of the character differs from the character
    kInert = 4,       // normalization never changes, combines or reorders the character
  };
  bool IsStable(char32_t character) const { return (kinds_[character] & kUnstable) == 0; }

  NormalForm form_;
  CodePointMap kinds_;
  CodePointMap classes_;  // canonical combining class of each character
};

}  // namespace incipit
