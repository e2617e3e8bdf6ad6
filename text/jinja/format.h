// Python's two ways to format: the operator % on strings, and str.format.
#pragma once

#include "absl/status/statusor.h"
#include "text/jinja/value.h"

namespace incipit::jinja {

class Interpreter;

// format % arguments. REQUIRES: format is a string.
absl::StatusOr<Value> FormatPercent(Interpreter& in, const Value& format, const Value& arguments);

// format.format(*positional, **keyword).
absl::StatusOr<Value> FormatBraces(Interpreter& in, const Value& format,
                                   const Arguments& arguments);

}  // namespace incipit::jinja
