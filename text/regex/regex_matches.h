// Finds all matches of a regular expression in a text. Both engines for regular expressions
// (automata and backtracking) use VisitMatches().
#pragma once

#include <string_view>

#include "base/status.h"
#include "text/regex/regex.h"
#include "text/unicode/utf8.h"

namespace incipit {

// Passes all matches in `text`, and the ranges without a match, to `sink` from left to right.
// REQUIRES: search.Find(from, match) finds the first match at or after the byte offset `from`.
// REQUIRES: search.has_given_up() returns true if Find() has reached its maximum number of steps.
template <typename Search>
absl::Status VisitMatches(std::string_view text, Search& search, SpanSink sink) {
  size_t from = 0, done = 0;
  bool has_matched = false;
  Span match;
  while (!text.empty() && from <= text.size() && search.Find(from, match)) {
    if (match.begin == match.end && has_matched && match.end == done) {
      // Ignore an empty match directly after another match, and search again one character later.
      from += from < text.size() ? Utf8Length(text[from]) : 1;
      continue;
    }
    if (done < match.begin) INCIPIT_RETURN_IF_ERROR(sink({.begin = done, .end = match.begin}));
    INCIPIT_RETURN_IF_ERROR(sink(match));
    from = done = match.end;
    has_matched = true;
  }
  if (search.has_given_up()) {
    return InvalidArgument(
        "a regular expression of the tokenizer needs too many steps to search the text");
  }
  if (done < text.size() || text.empty()) return sink({.begin = done, .end = text.size()});
  return absl::OkStatus();
}

}  // namespace incipit
