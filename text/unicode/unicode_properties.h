// Sets of characters with a Unicode property, in the Unicode versions that the parts of Hugging
// Face tokenizers use. Creating a set takes milliseconds, so callers should keep the set.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/unicode/categories.h"
#include "text/unicode/code_point_set.h"

namespace incipit {

// Sets as defined by Rust. Hugging Face tokenizers uses these sets everywhere except in the regular
// expressions of tokenizer.json.
CodePointSet NumericCharacters();      // general categories Nd, Nl, No
CodePointSet PunctuationCharacters();  // general categories P, and ASCII symbols
CodePointSet WordCharacters();         // Alphabetic, Join_Control, and categories M, Nd, Pc
CodePointSet CombiningMarks();         // general categories M

CodePointSet WhitespaceCharacters();  // characters with the property White_Space

// Sets as defined by the regular expressions of tokenizer.json. The first call computes the
// category of every character; later calls reuse the categories.
class RegexProperties {
 public:
  CodePointSet WordCharacters();  // characters of the class \w
  // Returns the characters of \p{name}. `name` is a general category, a script or another property.
  // Returns nothing for an unknown name.
  std::optional<CodePointSet> Property(std::string_view name);

 private:
  CodePointSet Categories(CategoryMask mask);
  std::optional<CodePointSet> PosixClass(const std::string& name);

  std::vector<UnicodeException> category_ranges_;
};

}  // namespace incipit
