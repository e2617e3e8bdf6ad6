// The characters that have a property, at the versions of Unicode that the reference tokenizer has
// for each of them. Making a set takes milliseconds; keep it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/unicode/categories.h"
#include "text/unicode/code_point_set.h"

namespace incipit {

// What Rust's functions and expressions mean, which the reference uses outside of tokenizer.json's
// own expressions.
CodePointSet NumericCharacters();      // Nd, Nl, No
CodePointSet PunctuationCharacters();  // P, and ASCII symbols
CodePointSet WordCharacters();         // Alphabetic, M, Nd, Pc, Join_Control
CodePointSet CombiningMarks();         // M

CodePointSet WhitespaceCharacters();  // White_Space

// What the reference's regular expressions mean. Remembers every character's category once it is
// asked, so that one expression asks for many sets at the price of one.
class RegexProperties {
 public:
  CodePointSet WordCharacters();  // \w
  // \p{name}: a general category, a script, or another property; nothing for an unknown name.
  std::optional<CodePointSet> Property(std::string_view name);

 private:
  CodePointSet Categories(CategoryMask mask);
  std::optional<CodePointSet> PosixClass(const std::string& name);

  std::vector<UnicodeException> category_ranges_;
};

}  // namespace incipit
