// The syntax of regular expressions in tokenizer.json, which is Oniguruma's own: Ruby's, with more.
// Parsing resolves everything that depends on Unicode, on case or on flags into plain sets of
// characters, so that what executes an expression needs to know none of it.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "text/unicode/code_point_set.h"

namespace incipit {

inline constexpr size_t kRegexBytesMax = 1 << 16;
inline constexpr int kRegexDepthMax = 100;  // nested groups and classes
inline constexpr int kRegexRepeatMax = 1000;

// A parsed expression. Matches are searched for from left to right, alternatives in order.
struct RegexNode {
  enum class Kind : uint8_t {
    kEmpty,
    kSet,        // one character of `set`
    kConcat,     // children, one after the other
    kAlternate,  // the first child that leads to a match
    kRepeat,     // children[0], from `min` to `max` times
    kAtomic,     // children[0], in the first way that it matches
    kCapture,    // children[0], remembered as group `group`
    kBackreference,
    // These match between characters.
    kNext,        // before a character of `set`, or at the end of the text if `at_edge`
    kPrevious,    // behind a character of `set`, or at the start of the text if `at_edge`
    kLookAhead,   // children[0] matches from here; or does not, if `negative`
    kLookBehind,  // children[0] matches up to here; or does not, if `negative`
  };
  enum class Greed : uint8_t { kGreedy, kLazy };

  Kind kind = Kind::kEmpty;
  CodePointSet set = {};
  std::vector<RegexNode> children = {};
  int min = 0, max = 0;  // -1: any number
  Greed greed = Greed::kGreedy;
  int group = 0;
  bool at_edge = false;
  bool negative = false;
};

// INVALID_ARGUMENT for a syntax error, UNIMPLEMENTED for a construct that is not supported; both
// name the byte at which it stands.
absl::StatusOr<RegexNode> ParseRegex(std::string_view pattern);

}  // namespace incipit
