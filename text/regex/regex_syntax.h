// Parses regular expressions in the syntax of the library Oniguruma (a superset of Ruby's syntax),
// which tokenizer.json files use. The parser replaces character properties and flags, such as \p{L}
// and (?i), by sets of characters. Therefore code that matches a parsed expression needs no Unicode
// tables.
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

// A node of the syntax tree of a regular expression. Alternatives are tried from left to right.
struct RegexNode {
  enum class Kind : uint8_t {
    kEmpty,
    kSet,     // matches one character of `set`
    kConcat,  // matches all children, in order
    // Matches the first child after which the rest of the expression also matches.
    kAlternate,
    kRepeat,  // matches children[0] at least `min` and at most `max` times
    // (?>...): keeps the first match of children[0]. Does not try other matches if the rest of the
    // expression fails.
    kAtomic,
    kCapture,  // matches children[0] and stores the matched text as group number `group`
    kBackreference,
    // The following nodes match a position in the text instead of characters.
    kNext,        // matches before a character in `set` and, if `at_edge`, at the end of the text
    kPrevious,    // matches after a character in `set` and, if `at_edge`, at the start of the text
    kLookAhead,   // (?=...) or, if `negative`, (?!...): checks the text after the position
    kLookBehind,  // (?<=...) or, if `negative`, (?<!...): checks the text before the position
  };
  enum class Greed : uint8_t { kGreedy, kLazy };

  Kind kind = Kind::kEmpty;
  CodePointSet set = {};
  std::vector<RegexNode> children = {};
  // Minimum and maximum number of repetitions of a kRepeat node. -1: no maximum.
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
