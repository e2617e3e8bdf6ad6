// Writes values as text: Python's str() and repr(), json.dumps, and HTML escapes. Text of the
// request keeps its marks of origin (text.h). Quotes and brackets get the origin of their string or
// container.
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
  std::optional<std::string> indent;  // indentation of one level; if missing, the JSON is one line
  std::string item_separator = ", ", key_separator = ": ";
};

// Appends repr(value).
absl::Status AppendRepr(Interpreter& in, const Value& value, TextBuilder& out);
// Appends json.dumps(value) in the style `style`.
absl::Status AppendJson(Interpreter& in, const Value& value, const JsonStyle& style,
                        TextBuilder& out);
// Appends str(value).
absl::Status AppendString(Interpreter& in, const Value& value, TextBuilder& out);
// Appends str(value) with HTML escapes. A string that is marked safe is appended without escapes.
absl::Status AppendEscaped(Interpreter& in, const Value& value, TextBuilder& out);

// Returns str(value) as a string that is not marked safe.
absl::StatusOr<Value> ToString(Interpreter& in, const Value& value);
// Returns str(value). A string that is marked safe stays marked safe.
absl::StatusOr<Value> ToSoftString(Interpreter& in, const Value& value);

}  // namespace incipit::jinja
