// The sequences without blocks, the next one to admit in front.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/sequence.h"

namespace incipit {

// True if `a` goes before `b`: higher priority, then earlier arrival, then earlier Add, then
// choice.
bool IsBefore(const Sequence& a, const Sequence& b);

// A binary heap in which each sequence knows its place (Sequence::queue_index), so that one in the
// middle leaves as cheaply as the front.
class WaitingQueue {
 public:
  void Reserve(size_t num_sequences);
  void Push(Sequence& sequence);
  Sequence& front() const { return *heap_.front(); }
  void Remove(Sequence& sequence);

  bool empty() const { return heap_.empty(); }
  int32_t size() const { return static_cast<int32_t>(heap_.size()); }
  std::span<Sequence* const> sequences() const { return heap_; }  // in no useful order

 private:
  void SiftUp(int32_t index);
  void SiftDown(int32_t index);
  void Place(int32_t index, Sequence& sequence);

  std::vector<Sequence*> heap_;
};

}  // namespace incipit
