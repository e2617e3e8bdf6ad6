// Blanks, lower case and the Unicode normal forms, as the reference tokenizer has them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"

namespace incipit {

// White_Space.
bool IsWhitespace(char32_t character);

// One character at a time, whatever stands around it, as Rust's char::to_lowercase.
void AppendLowercase(char32_t character, std::string& text);

enum class NormalForm : uint8_t { kNfc, kNfd, kNfkc, kNfkd };

// Calls `emit` with parts of the text, in order: [begin, end) of it and what they become. Parts
// that stay as they are come with their own text.
using NormalFormSink = absl::FunctionRef<void(size_t begin, size_t end, std::string_view text)>;
void Normalize(NormalForm form, std::string_view text, NormalFormSink emit);

}  // namespace incipit
