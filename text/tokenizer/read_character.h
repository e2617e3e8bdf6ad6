// Reads a string of exactly one character from a field of a tokenizer.json.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "base/json/json_fields.h"

namespace incipit {

// Returns the character in the string field `key`. Returns INVALID_ARGUMENT with the name of the
// field if the string is not exactly one character.
absl::StatusOr<char32_t> ReadCharacter(const JsonFields& fields, std::string_view key);

}  // namespace incipit
