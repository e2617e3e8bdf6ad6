// Python's format specifications, `[[fill]align][sign][#][0][width][grouping][.precision][type]`,
// and what they make of numbers and strings. Both ways to format end here.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "text/jinja/value.h"

namespace incipit::jinja {

class Interpreter;

struct FormatSpec {
  std::string fill = " ";  // one character
  char align = '\0';       // < > ^ = or none
  char sign = '-';         // - + or space
  bool alternate = false;
  bool zero = false;
  std::optional<int64_t> width, precision;
  char grouping = '\0';  // , or _
  char type = '\0';
};

// INVALID_ARGUMENT for what is no specification, and for sizes beyond output_bytes_max.
absl::StatusOr<FormatSpec> ParseFormatSpec(Interpreter& in, std::string_view text);

// Appends format(value, spec). REQUIRES: a number, or a string.
absl::Status AppendFormatted(Interpreter& in, const Value& value, const FormatSpec& spec,
                             TextBuilder& out);

// Digits and, for reals, point and exponent, without sign; type is one of eEfFgG.
std::string RealDigits(double magnitude, char type, int64_t precision, bool alternate);
// In base 2, 8, 10 or 16, without sign and prefix.
std::string IntDigits(Int magnitude, char type);

}  // namespace incipit::jinja
