// Formats strings in Python's two ways: with the operator % and with the method str.format().
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "text/jinja/library/builtins.h"

namespace incipit::jinja {

// Returns the result of `format % arguments` in Python. REQUIRES: `format` is a string.
absl::StatusOr<Value> FormatPercent(Interpreter& in, const Value& format, const Value& arguments);

// Returns the result of str.format() in Python. arguments.positional[0] is the format string. The
// other arguments are the values to insert.
absl::StatusOr<Value> FormatBraces(Interpreter& in, Arguments& arguments);

// Checks the format string `format` of the operator %. Returns UNIMPLEMENTED if this interpreter
// does not support a directive of `format`. If `format` is malformed, returns the same error as
// FormatPercent().
absl::Status CheckPercentFormat(std::string_view format);
// Checks the format string `format` of str.format(). Returns UNIMPLEMENTED if this interpreter does
// not support a field of `format`. If `format` is malformed, returns the same error as
// FormatBraces().
absl::Status CheckBracesFormat(std::string_view format);

}  // namespace incipit::jinja
