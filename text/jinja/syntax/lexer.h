// A template's source as tokens, by the rules of Jinja2's lexer with trim_blocks and lstrip_blocks.
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
  std::string text;  // of data, names and strings (unescaped); an operator's spelling
  Value number;
};

// The last token is kEnd. INVALID_ARGUMENT or UNIMPLEMENTED naming the line.
absl::StatusOr<std::vector<Token>> Tokenize(std::string_view source);

// How a token is named in messages.
std::string_view Describe(TokenType type);
std::string_view Describe(const Token& token);

// The literals of expressions: where they end in a source, and what they mean.
struct NumberLiteral {
  Value value;
  size_t end = 0;
};
// The decimal integer or float at `offset`; nullopt if no number begins there. INVALID_ARGUMENT
// beyond the range of Int, UNIMPLEMENTED for other bases and underscores.
absl::StatusOr<std::optional<NumberLiteral>> ReadNumber(std::string_view source, size_t offset);

// The offset behind the closing quote; `offset`, that of the opening quote, if there is none.
size_t StringEnd(std::string_view source, size_t offset);
// What is between the quotes, to the string that Python reads it as. UNIMPLEMENTED for \N{...} and
// octal escapes.
absl::StatusOr<std::string> UnescapeLiteral(std::string_view text);

}  // namespace incipit::jinja
