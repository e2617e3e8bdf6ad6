// Matches the regular expressions that no automaton can match, with PCRE2.
#pragma once

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "text/regex/regex.h"
#include "text/regex/regex_syntax.h"

namespace incipit {

// Matches by backtracking, which may take exponential time. A search that exceeds its limit of
// steps stops with an error. Immutable.
class BacktrackingRegex {
 public:
  // Creates the expression. Returns INVALID_ARGUMENT for an expression that PCRE2 rejects, such as
  // a look-behind of unlimited length.
  static absl::StatusOr<std::unique_ptr<const BacktrackingRegex>> Create(const RegexNode& root);
  ~BacktrackingRegex();

  // Finds all matches, like Regex::FindAll().
  absl::Status FindAll(std::string_view text, SpanSink sink) const;

 private:
  class Search;
  struct Code;
  explicit BacktrackingRegex(std::unique_ptr<const Code> code);
  std::unique_ptr<const Code> code_;
};

}  // namespace incipit
