// The literals of Jinja2's expressions: where they end in a source, and what they mean.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "text/jinja/value.h"

namespace incipit::jinja {

struct NumberLiteral {
  Value value;
  size_t end = 0;
};
// The decimal integer or float at `offset`; nullopt if no number begins there. INVALID_ARGUMENT
// beyond the range of Int, UNIMPLEMENTED for other bases and underscores.
absl::StatusOr<std::optional<NumberLiteral>> ReadNumber(std::string_view source, size_t offset);

// The offset behind the closing quote; `offset`, that of the opening quote, if there is none.
size_t StringEnd(std::string_view source, size_t offset);
// What is between the quotes, to the string that Python reads it as. UNIMPLEMENTED for \N{...} and
// octal escapes.
absl::StatusOr<std::string> UnescapeLiteral(std::string_view text);

}  // namespace incipit::jinja
