// Python's two ways to format strings: the operator %, and str.format().
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "text/jinja/library/builtins.h"

namespace incipit::jinja {

// Returns `format % arguments` of Python. REQUIRES: `format` is a string.
absl::StatusOr<Value> FormatPercent(Interpreter& in, const Value& format, const Value& arguments);

// Returns format.format(*positional, **keyword). positional[0] is the format itself.
absl::StatusOr<Value> FormatBraces(Interpreter& in, Arguments& arguments);

// Check `format` without arguments. Return UNIMPLEMENTED if this interpreter does not support a
// directive of `format`. For any other fault, return the error that formatting returns.
absl::Status CheckPercentFormat(std::string_view format);
absl::Status CheckBracesFormat(std::string_view format);

}  // namespace incipit::jinja
