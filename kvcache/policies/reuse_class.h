// What the adaptive policy tells blocks apart by.
#pragma once

#include <cstdint>

namespace incipit {

// Blocks fall into families, and in each into classes that grow with a count.
//  - New: used by one request. By the turn of that request: a request that begins with blocks that
//    were new in turn t is turn t + 1, so a conversation's blocks say how long it is already.
//  - Session: used by every request of their conversation since the one they were new in, and by
//    no other. By the turn of the last one: such blocks share their conversation's fate, whichever
//    turn they come from.
//  - Shared: used by more requests than that, such as system prompts and documents. By uses.
inline constexpr int kFirstSharedClass = 5, kFirstSessionClass = 11, kReuseClasses = 15;

// Their index is the class of `count` in steps of 1, 2, 3-4, 5-8, 9-16, 17-64 and more.
constexpr int CountStep(int count) {
  if (count <= 2) return count <= 1 ? 0 : 1;
  if (count <= 8) return count <= 4 ? 2 : 3;
  return count <= 16 ? 4 : count <= 64 ? 5 : 6;
}

// `uses` of a block that was new in turn `born`, when a request of turn `turn` has used it. A
// count above 255 counts as 255.
constexpr int ReuseClassOf(int uses, int born, int turn) {
  constexpr int kLongestTurn = 4;  // as a step: 9 and more
  const auto turn_step = [](int t) {
    return CountStep(t) < kLongestTurn ? CountStep(t) : kLongestTurn;
  };
  if (uses <= 1) return turn_step(born);
  const bool is_session = uses - 1 == turn - born;
  return is_session ? kFirstSessionClass + turn_step(turn) - 1
                    : kFirstSharedClass + CountStep(uses) - 1;
}

constexpr bool IsSharedClass(int reuse_class) {
  return reuse_class >= kFirstSharedClass && reuse_class < kFirstSessionClass;
}

// The class of a block of which only this is left.
constexpr int ReuseClassOf(int uses, int born, bool is_shared) {
  return is_shared ? ReuseClassOf(uses, 0, 0) : ReuseClassOf(uses, born, born + uses - 1);
}

}  // namespace incipit
