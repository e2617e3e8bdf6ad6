// Converts values to text, like Python's str(), repr() and json.dumps(), or with HTML escapes. The
// result records which bytes a client wrote. If a client wrote a container, its brackets and quotes
// also count as written by the client.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "text/jinja/runtime/value.h"

namespace incipit::jinja {

class Interpreter;

// Options of json.dumps in Python.
struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  // Indentation of one nesting level. If the indentation is not set, all JSON is on one line.
  std::optional<std::string> indent;
  std::string item_separator = ", ", key_separator = ": ";
};

// Appends repr(value).
absl::Status AppendRepr(Interpreter& in, const Value& value, TextBuilder& out);
// Appends json.dumps(value) in the style `style`.
absl::Status AppendJson(Interpreter& in, const Value& value, const JsonStyle& style,
                        TextBuilder& out);
// Appends str(value).
absl::Status AppendString(Interpreter& in, const Value& value, TextBuilder& out);
// Appends str(value) to `out` with HTML escapes, such as &lt; for <. If `value` is a string that is
// marked safe, appends the string without escapes.
absl::Status AppendEscaped(Interpreter& in, const Value& value, TextBuilder& out);

// Returns str(value). Even if `value` is a string that is marked safe (never HTML-escaped), the
// result is not marked safe.
absl::StatusOr<Value> ToString(Interpreter& in, const Value& value);
// Returns str(value). If `value` is a string that is marked safe (never HTML-escaped), the result
// is also marked safe.
absl::StatusOr<Value> ToSoftString(Interpreter& in, const Value& value);

}  // namespace incipit::jinja
