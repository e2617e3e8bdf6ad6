// Splits the source of a template into tokens, like the lexer of Jinja2 with trim_blocks and
// lstrip_blocks.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "text/jinja/runtime/value.h"

namespace incipit::jinja {

enum class TokenType : uint8_t {
  kData,
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,
  kNumber,
  kOperator,
  kEnd,
};

struct Token {
  TokenType type = TokenType::kEnd;
  int line = 0;
  std::string text;  // text, name, or string without escapes; spelling of an operator
  Value number;
};

// Returns the tokens of `source`; the last token is kEnd. Returns INVALID_ARGUMENT or UNIMPLEMENTED
// with the line in the message.
absl::StatusOr<std::vector<Token>> Tokenize(std::string_view source);

// Returns the name of a token in messages.
std::string_view Describe(TokenType type);
std::string_view Describe(const Token& token);

// A number in an expression, and the offset of its end in the source.
struct NumberLiteral {
  Value value;
  size_t end = 0;
};
// Returns the decimal integer or float at `offset`. Returns nullopt if no number begins there.
// Returns INVALID_ARGUMENT outside the range of Int, and UNIMPLEMENTED for other bases and
// underscores.
absl::StatusOr<std::optional<NumberLiteral>> ReadNumber(std::string_view source, size_t offset);

// Returns the offset after the closing quote. Returns `offset`, the position of the opening quote,
// if there is no closing quote.
size_t StringEnd(std::string_view source, size_t offset);
// Returns the string that Python reads from `text`, the text between the quotes. Returns
// UNIMPLEMENTED for \N{...} and octal escapes.
absl::StatusOr<std::string> UnescapeLiteral(std::string_view text);

}  // namespace incipit::jinja
