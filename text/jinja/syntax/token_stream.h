// A sequence of tokens that the parser reads from front to back, with one token of lookahead.
#pragma once

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/status.h"
#include "text/jinja/syntax/lexer.h"

namespace incipit::jinja {

class TokenStream {
 public:
  // REQUIRES: the last token in `tokens` is kEnd, and no other token is kEnd.
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[pos_]; }
  const Token& Look() const { return tokens_[std::min(pos_ + 1, tokens_.size() - 1)]; }
  bool At(TokenType type) const { return current().type == type; }
  bool AtName(std::string_view name) const { return At(TokenType::kName, name); }
  bool AtOperator(std::string_view op) const { return At(TokenType::kOperator, op); }

  Token Next() {
    if (pos_ + 1 == tokens_.size()) return current();
    return tokens_[pos_++];
  }
  bool SkipName(std::string_view name) { return Skip(TokenType::kName, name); }
  bool SkipOperator(std::string_view op) { return Skip(TokenType::kOperator, op); }

  absl::StatusOr<Token> Expect(TokenType type) {
    if (At(type)) return Next();
    return Unexpected(Describe(type));
  }
  absl::Status ExpectName(std::string_view name) {
    return SkipName(name) ? absl::OkStatus() : Unexpected(name);
  }
  absl::Status ExpectOperator(std::string_view op) {
    return SkipOperator(op) ? absl::OkStatus() : Unexpected(op);
  }

  // Returns INVALID_ARGUMENT with `line` and `message`.
  absl::Status Fail(int line, std::string_view message) const {
    return InvalidArgument("chat template line {}: {}", line, message);
  }
  absl::Status Fail(std::string_view message) const { return Fail(current().line, message); }
  // Returns the error UNIMPLEMENTED for `what`, an unsupported construct of Jinja on the line
  // `line`.
  absl::Status Refuse(int line, std::string_view what) const {
    return Unimplemented("chat template line {}: {} is not supported", line, what);
  }

 private:
  bool At(TokenType type, std::string_view text) const {
    return At(type) && current().text == text;
  }
  bool Skip(TokenType type, std::string_view text) {
    const bool matches = At(type, text);
    if (matches) Next();
    return matches;
  }
  absl::Status Unexpected(std::string_view expected) const {
    return Fail(fmt::format("expected '{}', got '{}'", expected, Describe(current())));
  }

  std::vector<Token> tokens_;
  size_t pos_ = 0;
};

}  // namespace incipit::jinja
