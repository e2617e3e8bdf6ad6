// Tokens one at a time, with one token of lookahead.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/status.h"
#include "text/jinja/lexer.h"

namespace incipit::jinja {

class TokenStream {
 public:
  // REQUIRES: the last token is kEnd, and there is no other.
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[pos_]; }
  const Token& Look() const { return tokens_[std::min(pos_ + 1, tokens_.size() - 1)]; }
  bool At(TokenType type) const { return current().type == type; }
  bool AtName(std::string_view name) const {
    return At(TokenType::kName) && current().text == name;
  }

  Token Next() {
    Token token = current();
    if (pos_ + 1 < tokens_.size()) ++pos_;
    return token;
  }
  bool SkipIf(TokenType type) {
    const bool matches = At(type);
    if (matches) Next();
    return matches;
  }
  bool SkipIfName(std::string_view name) {
    const bool matches = AtName(name);
    if (matches) Next();
    return matches;
  }

  absl::StatusOr<Token> Expect(TokenType type) {
    if (At(type)) return Next();
    return Unexpected(Describe(type));
  }
  absl::StatusOr<Token> ExpectName(std::string_view name) {
    if (AtName(name)) return Next();
    return Unexpected(name);
  }

  absl::Status Fail(int line, std::string_view message) const {
    return InvalidArgument("chat template line {}: {}", line, message);
  }
  absl::Status Fail(std::string_view message) const { return Fail(current().line, message); }

 private:
  absl::Status Unexpected(std::string_view expected) const {
    return Fail(fmt::format("expected '{}', got '{}'", expected, Describe(current())));
  }

  std::vector<Token> tokens_;
  size_t pos_ = 0;
};

}  // namespace incipit::jinja
