// The classes of blocks that the adaptive policy distinguishes.
#pragma once

#include <cstdint>

namespace incipit {

// The classes of blocks that the adaptive policy distinguishes are in four families:
// - new: used by one request; the class depends on the conversation turn of this request;
// - one-off: used by one request, which begins with a one-off prefix (OneOffPrefixes); one class;
// - shared: used by more requests than one conversation has; the class depends on the number of
//   uses;
// - session: used by all requests of one conversation since the block was new, and by no other
//   request; the class depends on the turn of the last request.
//
// If a request begins with blocks that were new in turn t, its turn is t + 1. The constants are the
// first classes of the families one-off, shared and session.
inline constexpr int kOneOffClass = 5, kFirstSharedClass = 6, kFirstSessionClass = 12;
inline constexpr int kReuseClasses = 16;

// Returns the index of the range that contains `count`. The ranges 0 to 6 are 1, 2, 3 to 4, 5 to 8,
// 9 to 16, 17 to 64, and 65 or more.
constexpr int CountStep(int count) {
  if (count <= 2) return count <= 1 ? 0 : 1;
  if (count <= 8) return count <= 4 ? 2 : 3;
  return count <= 16 ? 4 : count <= 64 ? 5 : 6;
}

// Returns whether a block was used exactly by the requests of one conversation from turn `born` to
// turn `turn`. The block was new in turn `born`, and was used `uses` times.
constexpr bool IsOfSession(int uses, int born, int turn) { return uses - 1 == turn - born; }

// Returns the class of a block that was new in the conversation turn `born`, and was used `uses`
// times. The last use was in a request of turn `turn`. The caller must pass counts above 255 as
// 255.
constexpr int ReuseClassOf(int uses, int born, int turn) {
  // Index of the range that contains conversation turn 9 and later turns.
  constexpr int kLongestTurn = 4;
  const auto turn_step = [](int t) {
    return CountStep(t) < kLongestTurn ? CountStep(t) : kLongestTurn;
  };
  if (uses <= 1) return turn_step(born);
  return IsOfSession(uses, born, turn) ? kFirstSessionClass + turn_step(turn) - 1
                                       : kFirstSharedClass + CountStep(uses) - 1;
}

constexpr bool IsUsedOnce(int reuse_class) { return reuse_class <= kOneOffClass; }

// Returns whether `reuse_class` belongs to the family one-off or shared, not new or session. The
// policy stores this bit for an evicted block, to know the family of the block later.
constexpr bool IsSecondFamily(int reuse_class) {
  return reuse_class >= kOneOffClass && reuse_class < kFirstSessionClass;
}

// Returns the reuse class of an evicted block, computed from the three values that the policy
// remembers of the block.
constexpr int ReuseClassOf(int uses, int born, bool is_second_family) {
  if (!is_second_family) return ReuseClassOf(uses, born, born + uses - 1);
  return uses <= 1 ? kOneOffClass : ReuseClassOf(uses, 0, 0);
}

}  // namespace incipit
