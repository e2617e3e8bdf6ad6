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
  kInteger,
  kFloat,
  kAdd,
  kSub,
  kMul,
  kDiv,
  kFloorDiv,
  kMod,
  kPow,
  kTilde,
  kLeftParen,
  kRightParen,
  kLeftBracket,
  kRightBracket,
  kLeftBrace,
  kRightBrace,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kAssign,
  kDot,
  kColon,
  kPipe,
  kComma,
  kSemicolon,
  kEnd,
};

struct Token {
  TokenType type = TokenType::kEnd;
  int line = 0;
  std::string text;  // of data, names and strings (unescaped); an operator's spelling
  Value number;      // of integers and floats
};

// The last token is kEnd. INVALID_ARGUMENT naming the line.
absl::StatusOr<std::vector<Token>> Tokenize(std::string_view source);

// How a token is named in messages.
std::string Describe(const Token& token);
std::string_view Describe(TokenType type);

}  // namespace incipit::jinja
