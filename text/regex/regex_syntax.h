// Parses regular expressions in the syntax of the library Oniguruma (a superset of Ruby's syntax),
// which tokenizer.json files use. The parser replaces character properties and flags, such as \p{L}
// and (?i), by sets of characters. The engines that match the parsed expression therefore need no
// Unicode tables.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "text/unicode/code_point_set.h"

namespace incipit {

inline constexpr size_t kRegexBytesMax = 1 << 16;
inline constexpr int kRegexDepthMax = 100;  // maximum nesting depth of groups and of classes
inline constexpr int kRegexRepeatMax = 1000;

// A node of the syntax tree of a regular expression. A match is searched from left to right, and
// alternatives are tried in order.
struct RegexNode {
  enum class Kind : uint8_t {
    kEmpty,
    kSet,     // matches one character of `set`
    kConcat,  // matches all children, in order
    // Matches the first child that lets the rest of the expression match.
    kAlternate,
    kRepeat,  // matches children[0] at least `min` and at most `max` times
    // (?>...): matches children[0]; after the first match, no other match of children[0] is tried.
    kAtomic,
    kCapture,  // matches children[0] and stores the matched text as group number `group`
    kBackreference,
    // The kinds from kNext on match a position between two characters, not a character.
    kNext,        // matches before a character of `set`; if `at_edge`, also at the end of the text
    kPrevious,    // matches after a character of `set`; if `at_edge`, also at the start of the text
    kLookAhead,   // (?=...): a match of children[0] begins here; `negative`: no match begins here
    kLookBehind,  // (?<=...): a match of children[0] ends here; `negative`: no match ends here
  };
  enum class Greed : uint8_t { kGreedy, kLazy };

  Kind kind = Kind::kEmpty;
  CodePointSet set = {};
  std::vector<RegexNode> children = {};
  // Minimum and maximum number of repetitions of a kRepeat node. `max` is -1 if unlimited.
  int min = 0, max = 0;
  Greed greed = Greed::kGreedy;
  int group = 0;
  bool at_edge = false;
  bool negative = false;
};

// Parses `pattern`. Returns INVALID_ARGUMENT for a syntax error, and UNIMPLEMENTED for an
// unsupported construct. The error message contains the byte offset of the error in `pattern`.
absl::StatusOr<RegexNode> ParseRegex(std::string_view pattern);

}  // namespace incipit
