// Sets of characters with a given Unicode property, as in Hugging Face tokenizers. The computation
// of a set takes milliseconds, so callers should store the set.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/unicode/categories.h"
#include "text/unicode/code_point_set.h"

namespace incipit {

// Returns the characters of the general categories Nd, Nl and No, which Rust calls numeric. The
// pre-tokenizer Digits of Hugging Face tokenizers uses this set.
CodePointSet NumericCharacters();
// Returns the characters whose general category begins with P (punctuation), and the ASCII symbols
// such as `+`.
CodePointSet PunctuationCharacters();
// Returns the word characters: all characters with the property Alphabetic or Join_Control, or with
// the general category M, Nd or Pc.
CodePointSet WordCharacters();
// Returns the combining marks: the characters whose general category begins with M.
CodePointSet CombiningMarks();

// Returns the characters with the Unicode property White_Space.
CodePointSet WhitespaceCharacters();

// Sets of characters for regular expressions in tokenizer.json, such as \w and \p{L}. The first
// call computes the category of every character and stores the result.
class RegexProperties {
 public:
  // Returns the characters of the class \w.
  CodePointSet WordCharacters();
  // Returns the characters of \p{name}. `name` is a general category, a script, or another
  // property. Returns nothing for an unknown name.
  std::optional<CodePointSet> Property(std::string_view name);

 private:
  CodePointSet Categories(CategoryMask mask);
  std::optional<CodePointSet> PosixClass(const std::string& name);

  std::vector<UnicodeException> category_ranges_;
};

}  // namespace incipit
