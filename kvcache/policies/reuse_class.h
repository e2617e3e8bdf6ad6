// What the adaptive policy tells blocks apart by.
#pragma once

#include <cstdint>

namespace incipit {

// Blocks fall into families, and in each into classes that grow with a count.
//  - New: used by one request. By the turn of that request: a request that begins with blocks that
//    were new in turn t is turn t + 1, so a conversation's blocks say how long it is already.
//  - One-off: used by one request, which began with a prefix whose prompts do not come back
//    (OneOffPrefixes). One class.
//  - Session: used by every request of their conversation since the one they were new in, and by
//    no other. By the turn of the last one: such blocks share their conversation's fate, whichever
//    turn they come from.
//  - Shared: used by more requests than that, such as system prompts and documents. By uses.
inline constexpr int kOneOffClass = 5, kFirstSharedClass = 6, kFirstSessionClass = 12;
inline constexpr int kReuseClasses = 16;

// Their index is the class of `count` in steps of 1, 2, 3-4, 5-8, 9-16, 17-64 and more.
constexpr int CountStep(int count) {
  if (count <= 2) return count <= 1 ? 0 : 1;
  if (count <= 8) return count <= 4 ? 2 : 3;
  return count <= 16 ? 4 : count <= 64 ? 5 : 6;
}

// Of a block that was new in turn `born`, when a request of turn `turn` is its `uses`th: whether
// only its conversation has used it.
constexpr bool IsOfSession(int uses, int born, int turn) { return uses - 1 == turn - born; }

// The class of such a block. A count above 255 counts as 255.
constexpr int ReuseClassOf(int uses, int born, int turn) {
  constexpr int kLongestTurn = 4;  // as a step: 9 and more
  const auto turn_step = [](int t) {
    return CountStep(t) < kLongestTurn ? CountStep(t) : kLongestTurn;
  };
  if (uses <= 1) return turn_step(born);
  return IsOfSession(uses, born, turn) ? kFirstSessionClass + turn_step(turn) - 1
                                       : kFirstSharedClass + CountStep(uses) - 1;
}

constexpr bool IsUsedOnce(int reuse_class) { return reuse_class <= kOneOffClass; }

// Of two families that uses do not tell apart: one-off rather than new, shared rather than session.
constexpr bool IsSecondFamily(int reuse_class) {
  return reuse_class >= kOneOffClass && reuse_class < kFirstSessionClass;
}

// The class of a block of which only this is left.
constexpr int ReuseClassOf(int uses, int born, bool is_second_family) {
  if (!is_second_family) return ReuseClassOf(uses, born, born + uses - 1);
  return uses <= 1 ? kOneOffClass : ReuseClassOf(uses, 0, 0);
}

}  // namespace incipit
