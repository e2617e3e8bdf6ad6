// Splits the source of a template into tokens, like the lexer of Jinja2 with the options
// trim_blocks and lstrip_blocks.
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
  int line = 0;      // line number in the source, from 1
  std::string text;  // name, operator, text outside of tags, or content of a string
  Value number;      // value of the number if `type` is kNumber
};

// Returns the tokens of `source`. The last token is kEnd. Returns INVALID_ARGUMENT or
// UNIMPLEMENTED, with the line number in the message, if `source` has an error.
absl::StatusOr<std::vector<Token>> Tokenize(std::string_view source);

std::string_view Describe(TokenType type);
// Returns a description of `token` for error messages: the text of a name or operator, otherwise
// the type of the token.
std::string_view Describe(const Token& token);

// The value of a number in an expression, and the offset in the source after the number.
struct NumberLiteral {
  Value value;
  size_t end = 0;
};
// Reads the decimal integer or float that begins at `offset`. Returns nullopt if no number begins
// there. Returns INVALID_ARGUMENT for an integer that does not fit into 64 bits. Returns
// UNIMPLEMENTED for a number in another base or with underscores.
absl::StatusOr<std::optional<NumberLiteral>> ReadNumber(std::string_view source, size_t offset);

// Returns the offset after the closing quote of the string whose opening quote is at `offset`.
// Returns `offset` if the string has no closing quote.
size_t StringEnd(std::string_view source, size_t offset);
// Replaces the escapes in `text`, the text between the quotes of a string literal, as Python does.
// Returns UNIMPLEMENTED for \N{...} and octal escapes.
absl::StatusOr<std::string> UnescapeLiteral(std::string_view text);

}  // namespace incipit::jinja
