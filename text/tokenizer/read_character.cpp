#include "text/tokenizer/read_character.h"

#include <string>

#include "base/status.h"
#include "text/unicode/utf8.h"

namespace incipit {

absl::StatusOr<char32_t> ReadCharacter(const JsonFields& fields, std::string_view key) {
  INCIPIT_ASSIGN_OR_RETURN(const std::string text, fields.String(key));
  size_t position = 0;
  const char32_t character = text.empty() ? 0 : NextCodePoint(text, position);
  if (text.empty() || position != text.size()) {
    return InvalidArgument("the field {} has {} bytes; the value must be exactly one character",
                           fields.PathOf(key), text.size());
  }
  return character;
}

}  // namespace incipit
