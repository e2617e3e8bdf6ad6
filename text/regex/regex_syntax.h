// The syntax of regular expressions in tokenizer.json: the syntax of the library Oniguruma, an
// extension of Ruby's. Parsing replaces everything that depends on Unicode, case or flags by plain
// sets of characters. The engines therefore need no knowledge of Unicode, case or flags.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "text/unicode/code_point_set.h"

namespace incipit {

inline constexpr size_t kRegexBytesMax = 1 << 16;
inline constexpr int kRegexDepthMax = 100;  // maximum nesting of groups and classes
inline constexpr int kRegexRepeatMax = 1000;

// A parsed expression. A search reads the text from left to right and tries alternatives in order.
struct RegexNode {
  enum class Kind : uint8_t {
    kEmpty,
    kSet,        // matches one character of `set`
    kConcat,     // matches all children, in order
    kAlternate,  // matches the first child with which the rest of the expression matches
    kRepeat,     // matches children[0] at least `min` and at most `max` times
    kAtomic,     // matches children[0] only in the first possible way
    kCapture,    // matches children[0] and stores the matched text as group `group`
    kBackreference,
    // The following kinds match at a position between two characters.
    kNext,        // before a character of `set`, or at the end of the text if `at_edge`
    kPrevious,    // after a character of `set`, or at the start of the text if `at_edge`
    kLookAhead,   // children[0] matches from here, or does not match if `negative`
    kLookBehind,  // children[0] matches up to here, or does not match if `negative`
  };
  enum class Greed : uint8_t { kGreedy, kLazy };

  Kind kind = Kind::kEmpty;
  CodePointSet set = {};
  std::vector<RegexNode> children = {};
  int min = 0, max = 0;  // numbers of repetitions of kRepeat; `max` is -1 for no limit
  Greed greed = Greed::kGreedy;
  int group = 0;
  bool at_edge = false;
  bool negative = false;
};

// Parses `pattern`. Returns INVALID_ARGUMENT for a syntax error, and UNIMPLEMENTED for an
// unsupported construct. The message names the byte position in `pattern`.
absl::StatusOr<RegexNode> ParseRegex(std::string_view pattern);

}  // namespace incipit
