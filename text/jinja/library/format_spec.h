// Python's format specifications, `[[fill]align][sign][0][width][,][.precision][type]`, and their
// output for numbers and strings. The operator % and str.format() both use these specifications.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "text/jinja/runtime/value.h"

namespace incipit::jinja {

struct FormatSpec {
  std::string fill = " ";  // exactly one character
  char align = '\0';       // one of < > ^ = or none
  char sign = '-';         // one of - + or space
  bool zero = false;
  bool grouping = false;
  std::optional<int64_t> width, precision;
  char type = '\0';
};

// Parses a format specification. Returns INVALID_ARGUMENT if `text` is not a specification. Returns
// UNIMPLEMENTED for a specification of Python that has more than the form at the top of this file.
absl::StatusOr<FormatSpec> ParseFormatSpec(std::string_view text);

// Parses the digits at `pos` and moves `pos` to their end. Returns nullopt if there are no digits.
// A number above 2^40 becomes 2^40, which exceeds every limit.
std::optional<int64_t> ParseFormatNumber(std::string_view text, size_t& pos);

// Appends format(value, spec). REQUIRES: `value` is a number or a string.
absl::Status AppendFormatted(Interpreter& in, const Value& value, const FormatSpec& spec,
                             TextBuilder& out);

}  // namespace incipit::jinja
