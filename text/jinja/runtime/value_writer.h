// Values as text: Python's str() and repr(), json.dumps, and HTML escapes. What came with the
// request stays marked; quotes and brackets are the string's or the container's.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "text/jinja/runtime/value.h"

namespace incipit::jinja {

class Interpreter;

// How json.dumps writes.
struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent;  // of one level; everything on one line without
  std::string item_separator = ", ", key_separator = ": ";
};

absl::Status AppendRepr(Interpreter& in, const Value& value, TextBuilder& out);
absl::Status AppendJson(Interpreter& in, const Value& value, const JsonStyle& style,
                        TextBuilder& out);
// str(value).
absl::Status AppendString(Interpreter& in, const Value& value, TextBuilder& out);
// str(value) with HTML escapes; a string that is marked safe is left as it is.
absl::Status AppendEscaped(Interpreter& in, const Value& value, TextBuilder& out);

// str(value), as a plain string.
absl::StatusOr<Value> ToString(Interpreter& in, const Value& value);
// The same, but a string that is marked safe stays so.
absl::StatusOr<Value> ToSoftString(Interpreter& in, const Value& value);

}  // namespace incipit::jinja
