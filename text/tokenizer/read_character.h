// Reads a key of a tokenizer file whose value must be one character.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "base/json/json_fields.h"

namespace incipit {

// Returns the character of the string at `key`. Returns INVALID_ARGUMENT with `key` in the message
// if the string does not have exactly one character.
absl::StatusOr<char32_t> ReadCharacter(const JsonFields& fields, std::string_view key);

}  // namespace incipit
