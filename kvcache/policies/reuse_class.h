// Classes of cached blocks by their past uses, for the statistics of the adaptive eviction policy.
#pragma once

#include <cstdint>

namespace incipit {

// Indices of the first classes of three families of blocks:
// - one-off: blocks that one request used, and that will probably not be used again;
// - shared: blocks that several conversations used;
// - session: blocks that several requests of one conversation used.
//
// Classes with an index below kOneOffClass are for other blocks that one request used.
inline constexpr int kOneOffClass = 5, kFirstSharedClass = 6, kFirstSessionClass = 12;
inline constexpr int kReuseClasses = 16;

// Returns the index of the range that contains `count`. The ranges are: up to 1, 2, 3 to 4, 5 to 8,
// 9 to 16, 17 to 64, and above 64. The first range has the index 0.
constexpr int CountStep(int count) {
  if (count <= 2) return count <= 1 ? 0 : 1;
  if (count <= 8) return count <= 4 ? 2 : 3;
  return count <= 16 ? 4 : count <= 64 ? 5 : 6;
}

// Returns true if the number of uses of a block (`uses`) equals the number of conversation turns
// from `born` to `turn`, inclusive. The block then belongs to one conversation.
constexpr bool IsOfSession(int uses, int born, int turn) { return uses - 1 == turn - born; }

// Returns the reuse class (class of blocks with similar past uses) of a block. The block was
// computed in the conversation turn `born`, was used `uses` times, and was last used in the turn
// `turn`. REQUIRES: `uses` and `born` are at most 255.
constexpr int ReuseClassOf(int uses, int born, int turn) {
  // Index of the last range of conversation turns: turn 9 and later turns.
  constexpr int kLongestTurn = 4;
  const auto turn_step = [](int t) {
    return CountStep(t) < kLongestTurn ? CountStep(t) : kLongestTurn;
  };
  if (uses <= 1) return turn_step(born);
  return IsOfSession(uses, born, turn) ? kFirstSessionClass + turn_step(turn) - 1
                                       : kFirstSharedClass + CountStep(uses) - 1;
}

constexpr bool IsUsedOnce(int reuse_class) { return reuse_class <= kOneOffClass; }

// Returns true for the classes of one-off blocks (used once, and probably never again) and of
// shared blocks (used by several conversations).
constexpr bool IsSecondFamily(int reuse_class) {
  return reuse_class >= kOneOffClass && reuse_class < kFirstSessionClass;
}

// Returns the reuse class (class of blocks with similar past uses) of an evicted block. Uses only
// the data that the policy stores for evicted blocks.
constexpr int ReuseClassOf(int uses, int born, bool is_second_family) {
  if (!is_second_family) return ReuseClassOf(uses, born, born + uses - 1);
  return uses <= 1 ? kOneOffClass : ReuseClassOf(uses, 0, 0);
}

}  // namespace incipit
