// Python's format specifications, `[[fill]align][sign][0][width][,][.precision][type]`, and their
// output for numbers and strings. The operator % and str.format() use format specifications.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "text/jinja/runtime/value.h"

namespace incipit::jinja {

struct FormatSpec {
  std::string fill = " ";  // fill character in UTF-8; exactly one character
  char align = '\0';       // alignment: one of < > ^ =; \0 if the specification has no alignment
  char sign = '-';         // sign option: one of - and + and space
  bool zero = false;       // true if the specification has the flag 0 (pad with zeros)
  bool grouping = false;   // true to separate groups of three digits by commas
  std::optional<int64_t> width, precision;
  char type = '\0';
};

// Parses a format specification. Returns INVALID_ARGUMENT if `text` is not a format specification
// of Python. Returns UNIMPLEMENTED if this interpreter does not support a feature of the
// specification, such as `#`.
absl::StatusOr<FormatSpec> ParseFormatSpec(std::string_view text);

// Parses the decimal number at `pos` in `text`, and moves `pos` to the end of the number. Returns
// nullopt if no digit is at `pos`. Returns 2^40 for every greater number.
std::optional<int64_t> ParseFormatNumber(std::string_view text, size_t& pos);

// Appends the result of format(value, spec) in Python to `out`. REQUIRES: `value` is a number or a
// string.
absl::Status AppendFormatted(Interpreter& in, const Value& value, const FormatSpec& spec,
                             TextBuilder& out);

}  // namespace incipit::jinja
