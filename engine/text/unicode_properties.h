// The characters that have a property, at the versions of Unicode that the reference tokenizer has
// for each of them. Making a set takes milliseconds; keep it.
#pragma once

#include <optional>
#include <string_view>

#include "engine/text/code_point_set.h"

namespace incipit {

// What Rust's functions and expressions mean, which the reference uses outside of tokenizer.json's
// own expressions.
CodePointSet NumericCharacters();      // Nd, Nl, No
CodePointSet PunctuationCharacters();  // P, and ASCII symbols
CodePointSet WordCharacters();         // Alphabetic, M, Nd, Pc, Join_Control
CodePointSet CombiningMarks();         // M

CodePointSet WhitespaceCharacters();  // White_Space

// What the reference's regular expressions mean.
CodePointSet RegexWordCharacters();  // \w
// \p{name}: a general category, a script, or another property; nothing for an unknown name.
std::optional<CodePointSet> RegexProperty(std::string_view name);

}  // namespace incipit
