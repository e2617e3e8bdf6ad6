// A key of a tokenizer's files that holds one character.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "base/json/json_fields.h"

namespace incipit {

// Returns the character of a string of exactly one. INVALID_ARGUMENT naming the key.
absl::StatusOr<char32_t> ReadCharacter(const JsonFields& fields, std::string_view key);

}  // namespace incipit
