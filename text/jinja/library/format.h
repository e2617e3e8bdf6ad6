// Formats strings with Python's operator %.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "text/jinja/runtime/value.h"

namespace incipit::jinja {

// Returns the result of `format % arguments` in Python. REQUIRES: `format` is a string.
absl::StatusOr<Value> FormatPercent(Interpreter& in, const Value& format, const Value& arguments);

// Checks the format string `format` of Python's operator %. Returns UNIMPLEMENTED for an
// unsupported directive. Returns INVALID_ARGUMENT if `format` is malformed.
absl::Status CheckPercentFormat(std::string_view format);

}  // namespace incipit::jinja
