// A pattern in a tokenizer.json: a string or a regular expression. The field `pattern` of the JSON
// object is {"String": "..."} or {"Regex": "..."}.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "absl/status/statusor.h"
#include "base/json/json_fields.h"
#include "text/regex/regex.h"

namespace incipit {

class TextPattern {
 public:
  // Creates the pattern from the field `pattern` of the object `fields`.
  static absl::StatusOr<TextPattern> Create(const JsonFields& fields);

  static absl::StatusOr<TextPattern> FromRegex(std::string_view pattern);
  static TextPattern FromLiteral(std::string literal) { return TextPattern(std::move(literal)); }

  // Passes all matches in `text`, and the ranges without a match, to `sink` from left to right.
  absl::Status FindAll(std::string_view text, SpanSink sink) const;
  // Returns the string that the pattern matches. Returns null if the pattern is a regular
  // expression.
  const std::string* literal() const { return std::get_if<std::string>(&pattern_); }

 private:
  explicit TextPattern(std::variant<std::string, Regex> pattern) : pattern_(std::move(pattern)) {}
  std::variant<std::string, Regex> pattern_;
};

}  // namespace incipit
