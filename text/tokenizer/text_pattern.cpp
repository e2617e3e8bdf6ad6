#include "text/tokenizer/text_pattern.h"

#include <utility>

#include "base/status.h"

namespace incipit {

absl::StatusOr<TextPattern> TextPattern::Create(const JsonFields& fields) {
  INCIPIT_ASSIGN_OR_RETURN(const nlohmann::json* json, fields.Object("pattern"));
  const std::string path = fields.PathOf("pattern");
  INCIPIT_ASSIGN_OR_RETURN(const JsonFields pattern, JsonFields::Of(*json, path));
  INCIPIT_ASSIGN_OR_RETURN(const auto literal, pattern.OptionalString("String"));
  // If the literal is empty, compile an empty regular expression, which matches between all
  // characters.
  if (literal.has_value() && !literal->empty()) return TextPattern(*literal);
  std::string source;
  if (!literal.has_value()) {
    INCIPIT_ASSIGN_OR_RETURN(source, pattern.String("Regex"));
  }
  auto regex = Regex::Compile(source);
  if (!regex.ok()) return Annotate(regex.status(), path);
  return TextPattern(*std::move(regex));
}

absl::StatusOr<TextPattern> TextPattern::FromRegex(std::string_view pattern) {
  INCIPIT_ASSIGN_OR_RETURN(Regex regex, Regex::Compile(pattern));
  return TextPattern(std::move(regex));
}

absl::Status TextPattern::FindAll(std::string_view text, SpanSink sink) const {
  if (const std::string* string = literal()) return FindAllLiteral(*string, text, sink);
  return std::get<Regex>(pattern_).FindAll(text, sink);
}

}  // namespace incipit
