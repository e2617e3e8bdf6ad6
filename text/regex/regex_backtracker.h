// Finds matches of regular expressions with the library PCRE2. Used for expressions that no
// automaton can match.
#pragma once

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "text/regex/regex.h"
#include "text/regex/regex_syntax.h"

namespace incipit {

// A regular expression that is matched by backtracking. Backtracking can take exponential time, so
// a search with too many steps returns an error. Immutable.
class BacktrackingRegex {
 public:
  // Compiles the expression `root` with PCRE2. Returns INVALID_ARGUMENT if PCRE2 rejects the
  // expression, for example because of a look-behind of unlimited length.
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
