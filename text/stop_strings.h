// Finds stop strings in text that arrives in pieces, across the borders of the pieces.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace incipit {

// One answer's stop strings. Linear in the text, whatever the stop strings are. The stop string
// whose occurrence ends first wins; of two that end together, the one that begins first.
class StopStrings {
 public:
  // REQUIRES: no empty string.
  explicit StopStrings(std::vector<std::string> strings);

  struct Result {
    std::string text;  // safe to show: no stop string can begin in it any more
    std::optional<size_t>
        matched;  // index of the stop string that was found; nothing after it counts
  };
  // With `include_stop`, a match's own text is part of Result::text, otherwise the text ends before
  // it.
  Result Push(std::string_view text, bool include_stop);
  // Text in which no stop string counts that ends in it, only one that begins in it and ends later.
  // Returns what is safe to show.
  std::string Pass(std::string_view text);
  // What was held back in case a stop string had begun.
  std::string Flush();

 private:
  struct Pattern {
    std::string text;
    std::vector<size_t> fallback;  // Knuth-Morris-Pratt
    size_t matched = 0;  // length of the longest prefix that is a suffix of the text so far
  };
  // The pattern that ends with this byte of the text; of several, the longest.
  std::optional<size_t> Step(char c);
  // Takes text without a match; returns all that no stop string can begin in any more.
  std::string Hold(std::string_view text);

  std::vector<Pattern> patterns_;
  std::string held_;
};

}  // namespace incipit
