// Python's two ways to format: the operator % on strings, and str.format.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "text/jinja/library/builtins.h"

namespace incipit::jinja {

// format % arguments. REQUIRES: format is a string.
absl::StatusOr<Value> FormatPercent(Interpreter& in, const Value& format, const Value& arguments);

// format.format(*positional, **keyword), where positional[0] is the format itself.
absl::StatusOr<Value> FormatBraces(Interpreter& in, Arguments& arguments);

// UNIMPLEMENTED for a directive that Python has and this sandbox refuses; other errors are those of
// formatting.
absl::Status CheckPercentFormat(std::string_view format);
absl::Status CheckBracesFormat(std::string_view format);

}  // namespace incipit::jinja
