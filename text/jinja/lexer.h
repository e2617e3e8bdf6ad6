// A template's source as tokens, by the rules of Jinja2's lexer with trim_blocks and lstrip_blocks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "text/jinja/value.h"

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

}  // namespace incipit::jinja
