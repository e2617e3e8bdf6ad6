// The literals of Jinja2's expressions: where they end in a source, and what they mean.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "text/jinja/value.h"

namespace incipit::jinja {

// Each returns `offset` if no such literal begins there.
size_t FloatEnd(std::string_view source, size_t offset);
size_t IntegerEnd(std::string_view source, size_t offset);
size_t StringEnd(std::string_view source, size_t offset);

absl::StatusOr<double> ParseFloatLiteral(std::string_view text);
// INVALID_ARGUMENT beyond the range of Int.
absl::StatusOr<Int> ParseIntegerLiteral(std::string_view text);
// What is between the quotes, to the string that Python reads it as. UNIMPLEMENTED for \N{...}.
absl::StatusOr<std::string> UnescapeLiteral(std::string_view text);

}  // namespace incipit::jinja
