#include "scheduler/waiting_queue.h"

#include <algorithm>

#include "base/check.h"

namespace incipit {

bool IsBefore(const Sequence& a, const Sequence& b) {
  const Request& first = a.request();
  const Request& second = b.request();
  if (first.priority != second.priority) return first.priority > second.priority;
  if (first.arrival != second.arrival) return first.arrival < second.arrival;
  if (a.group->order != b.group->order) return a.group->order < b.group->order;
  return a.choice < b.choice;
}

void WaitingQueue::Reserve(size_t num_sequences) {
  if (heap_.capacity() >= num_sequences) return;
  heap_.reserve(std::max(num_sequences, 2 * heap_.capacity()));
}

void WaitingQueue::Push(Sequence& sequence) {
  INCIPIT_CHECK(sequence.queue_index < 0);
  heap_.push_back(&sequence);
  SiftUp(size() - 1);
}

void WaitingQueue::Remove(Sequence& sequence) {
  const int32_t hole = sequence.queue_index;
  INCIPIT_CHECK(hole >= 0 && hole < size() && heap_[hole] == &sequence);
  sequence.queue_index = -1;
  Sequence* last = heap_.back();
  heap_.pop_back();
  if (last == &sequence) return;
  Place(hole, *last);
  SiftUp(hole);
  SiftDown(last->queue_index);
}

void WaitingQueue::Place(int32_t index, Sequence& sequence) {
  heap_[index] = &sequence;
  sequence.queue_index = index;
}

void WaitingQueue::SiftUp(int32_t index) {
  Sequence& moving = *heap_[index];
  while (index > 0) {
    const int32_t above = (index - 1) / 2;
    if (!IsBefore(moving, *heap_[above])) break;
    Place(index, *heap_[above]);
    index = above;
  }
  Place(index, moving);
}

void WaitingQueue::SiftDown(int32_t index) {
  Sequence& moving = *heap_[index];
  while (true) {
    int32_t below = 2 * index + 1;
    if (below >= size()) break;
    if (below + 1 < size() && IsBefore(*heap_[below + 1], *heap_[below])) ++below;
    if (!IsBefore(*heap_[below], moving)) break;
    Place(index, *heap_[below]);
    index = below;
  }
  Place(index, moving);
}

}  // namespace incipit
