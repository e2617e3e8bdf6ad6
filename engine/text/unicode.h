// Properties of characters and the Unicode normal forms, at the versions of Unicode that the
// reference tokenizer has for each of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"

namespace incipit {

// White_Space, which is what Rust's char::is_whitespace and \s of its expressions mean.
bool IsWhitespace(char32_t character);
// Nd, Nl and No: Rust's char::is_numeric.
bool IsNumeric(char32_t character);
// P* of the Unicode that `unicode_categories` has, or ASCII punctuation.
bool IsPunctuation(char32_t character);
// \w of Rust's expressions: Alphabetic, M, Nd, Pc and Join_Control.
bool IsWordCharacter(char32_t character);
// M*: a combining mark.
bool IsCombiningMark(char32_t character);

// Rust's char::to_lowercase: one character at a time, whatever stands around it.
void AppendLowercase(char32_t character, std::string& text);

enum class NormalForm : uint8_t { kNfc, kNfd, kNfkc, kNfkd };

// Calls `emit` with parts of the text, in order: [begin, end) of it and what they become. Parts
// that stay as they are come with their own text.
using NormalFormSink = absl::FunctionRef<void(size_t begin, size_t end, std::string_view text)>;
void Normalize(NormalForm form, std::string_view text, NormalFormSink emit);

}  // namespace incipit
