// Sets of characters with a given Unicode property. The Unicode versions are those of Hugging Face
// tokenizers. Creating a set takes milliseconds, so callers should store the set.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/unicode/categories.h"
#include "text/unicode/code_point_set.h"

namespace incipit {

// Returns the characters with the general categories Nd, Nl or No, as in Rust. Hugging Face
// tokenizers uses the set for the pre-tokenizer Digits.
CodePointSet NumericCharacters();
// Returns the characters of the general categories P (punctuation), and the ASCII symbols.
CodePointSet PunctuationCharacters();
// Returns the characters with the property Alphabetic or Join_Control, or with the general category
// M, Nd or Pc.
CodePointSet WordCharacters();
// Returns the characters of the general categories M (combining marks).
CodePointSet CombiningMarks();

// Returns the characters with the Unicode property White_Space.
CodePointSet WhitespaceCharacters();

// Sets of characters for character classes in the regular expressions of tokenizer.json, such as \w
// and \p{L}. The first call computes the category of every character and stores the categories for
// later calls.
class RegexProperties {
 public:
  // Returns the characters of the class \w.
  CodePointSet WordCharacters();
  // Returns the characters of the class \p{name}. `name` is a general category, a script, or
  // another property. Returns nothing for an unknown name.
  std::optional<CodePointSet> Property(std::string_view name);

 private:
  CodePointSet Categories(CategoryMask mask);
  std::optional<CodePointSet> PosixClass(const std::string& name);

  std::vector<UnicodeException> category_ranges_;
};

}  // namespace incipit
