// Python's format specifications, `[[fill]align][sign][0][width][,][.precision][type]`, and what
// they make of numbers and strings. Both ways to format end here.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "text/jinja/runtime/value.h"

namespace incipit::jinja {

struct FormatSpec {
  std::string fill = " ";  // one character
  char align = '\0';       // < > ^ = or none
  char sign = '-';         // - + or space
  bool zero = false;
  bool grouping = false;
  std::optional<int64_t> width, precision;
  char type = '\0';
};

// INVALID_ARGUMENT for what is no specification, UNIMPLEMENTED for what Python has beyond the form
// above.
absl::StatusOr<FormatSpec> ParseFormatSpec(std::string_view text);

// The digits at `pos`, which is moved past them; nullopt if there are none. What is too large for
// any limit is some number that is too.
std::optional<int64_t> ParseFormatNumber(std::string_view text, size_t& pos);

// Appends format(value, spec). REQUIRES: a number, or a string.
absl::Status AppendFormatted(Interpreter& in, const Value& value, const FormatSpec& spec,
                             TextBuilder& out);

}  // namespace incipit::jinja
