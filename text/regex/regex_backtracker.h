// Executes the regular expressions that no automaton can, by PCRE2.
#pragma once

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "text/regex/regex.h"
#include "text/regex/regex_syntax.h"

namespace incipit {

// Tries one way after the other, and so may take exponential time; a search that exceeds its steps
// gives up. Immutable.
class BacktrackingRegex {
 public:
  // INVALID_ARGUMENT for what PCRE2 does not take, such as a look-behind of any length.
  static absl::StatusOr<std::unique_ptr<const BacktrackingRegex>> Create(const RegexNode& root);
  ~BacktrackingRegex();

  // As Regex::FindAll.
  absl::Status FindAll(std::string_view text, SpanSink sink) const;

 private:
  class Search;
  struct Code;
  explicit BacktrackingRegex(std::unique_ptr<const Code> code);
  std::unique_ptr<const Code> code_;
};

}  // namespace incipit
