// A heap of the requests with deadlines, ordered by the time of the next check of each deadline.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "scheduler/sequence.h"

namespace incipit {

// A binary heap of requests, ordered by SequenceGroup::look_at, the time of the next check of the
// deadline. SequenceGroup::deadline_index is the position of the request in the heap. Push and
// Remove take O(log(number of requests)) time.
class DeadlineHeap {
 public:
  // Adds `group`. Does nothing if `look_at` of `group` is kNoDeadline. Allocates memory only if the
  // heap then has more requests than ever before.
  void Push(SequenceGroup& group);
  // Removes `group`. Does nothing if the request is not in the heap.
  void Remove(SequenceGroup& group);

  // Returns the earliest time at which a deadline must be checked (SequenceGroup::look_at). Returns
  // kNoDeadline if the heap is empty.
  Time next() const { return heap_.empty() ? kNoDeadline : heap_.front()->look_at; }
  // Returns the request whose deadline must be checked first. REQUIRES: the heap is not empty.
  SequenceGroup& front() const { return *heap_.front(); }

 private:
  static bool IsEarlier(const SequenceGroup& a, const SequenceGroup& b) {
    return a.look_at < b.look_at;
  }
  void SiftUp(int32_t index);
  void SiftDown(int32_t index);
  void Place(int32_t index, SequenceGroup& group);

  std::vector<SequenceGroup*> heap_;
};

}  // namespace incipit
