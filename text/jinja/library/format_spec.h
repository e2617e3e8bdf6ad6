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
  std::string fill = " ";  // fill character; exactly one
  char align = '\0';       // one of < > ^ =; \0 if the specification has no alignment
  char sign = '-';         // one of - and + and space
  bool zero = false;       // true to pad with zeros
  bool grouping = false;   // true to separate groups of three digits by commas
  std::optional<int64_t> width, precision;
  char type = '\0';
};

// Parses a format specification. Returns INVALID_ARGUMENT if `text` is not a specification. Returns
// UNIMPLEMENTED for a specification of Python that has more than the form at the top of this file.
absl::StatusOr<FormatSpec> ParseFormatSpec(std::string_view text);

// Parses the digits of `text` at `pos`, and moves `pos` to the end of the digits. Returns nullopt
// if no digit is at `pos`. A number above 2^40 becomes 2^40, which exceeds every limit.
std::optional<int64_t> ParseFormatNumber(std::string_view text, size_t& pos);

// Appends format(value, spec) of Python. REQUIRES: `value` is a number or a string.
absl::Status AppendFormatted(Interpreter& in, const Value& value, const FormatSpec& spec,
                             TextBuilder& out);

}  // namespace incipit::jinja
