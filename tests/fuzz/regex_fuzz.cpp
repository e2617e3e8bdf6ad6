// Fuzzes tokenizer regexes. The input is an expression and, after the first NUL, a text. Either the
// parser refuses the expression, or the matches and gaps cover the text. If both the automaton and
// PCRE2 support the expression, both must find the same matches.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "text/regex/regex.h"
#include "text/unicode/utf8.h"

namespace {

using Spans = std::vector<std::pair<size_t, size_t>>;

// Finds the matches of `regex` in `text`. Returns false if the search ends with an error.
bool Find(const incipit::Regex& regex, std::string_view text, Spans& spans) {
  size_t done = 0;
  const auto status = regex.FindAll(text, [&](const incipit::Span& span) {
    INCIPIT_CHECK(span.begin == done && span.end >= span.begin);
    done = span.end;
    if (span.is_match) spans.emplace_back(span.begin, span.end);
    return absl::OkStatus();
  });
  INCIPIT_CHECK(!status.ok() || done == text.size());
  return status.ok();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using incipit::Regex;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t border = input.find('\0');
  std::string_view text = "aab  12\n\xE4\xBD\xA0 b";
  if (border != input.npos) text = input.substr(border + 1);
  if (!incipit::IsUtf8(text)) return 0;
  const auto automaton = Regex::Compile(input.substr(0, border), Regex::Engine::kAutomaton);
  const auto backtracker = Regex::Compile(input.substr(0, border), Regex::Engine::kBacktracking);
  Spans first, second;
  const bool has_first = automaton.ok() && Find(*automaton, text, first);
  const bool has_second = backtracker.ok() && Find(*backtracker, text, second);
  if (has_first && has_second) INCIPIT_CHECK(first == second);
  return 0;
}
