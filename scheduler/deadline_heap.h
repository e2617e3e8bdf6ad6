// The requests with deadlines, the earliest deadline first.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "scheduler/sequence.h"

namespace incipit {

// A binary heap of requests, ordered by their deadlines. Each request knows its position
// (SequenceGroup::deadline_index). Push and Remove take O(log(number of requests)) time.
class DeadlineHeap {
 public:
  // Adds `group`. Does nothing if the request has no deadline. May allocate memory.
  void Push(SequenceGroup& group);
  // Removes `group`. Does nothing if the request is not in the heap.
  void Remove(SequenceGroup& group);

  // Returns the earliest deadline, or kNoDeadline.
  Time next() const { return heap_.empty() ? kNoDeadline : heap_.front()->request->deadline; }
  // Returns the request with the earliest deadline. REQUIRES: the heap is not empty.
  SequenceGroup& front() const { return *heap_.front(); }

 private:
  static bool IsEarlier(const SequenceGroup& a, const SequenceGroup& b) {
    return a.request->deadline < b.request->deadline;
  }
  void SiftUp(int32_t index);
  void SiftDown(int32_t index);
  void Place(int32_t index, SequenceGroup& group);

  std::vector<SequenceGroup*> heap_;
};

}  // namespace incipit
