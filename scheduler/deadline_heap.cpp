#include "scheduler/deadline_heap.h"

#include "base/check.h"

namespace incipit {

void DeadlineHeap::Push(SequenceGroup& group) {
  if (group.look_at == kNoDeadline) return;
  heap_.push_back(&group);
  SiftUp(static_cast<int32_t>(heap_.size()) - 1);
}

void DeadlineHeap::Remove(SequenceGroup& group) {
  const int32_t hole = group.deadline_index;
  if (hole < 0) return;
  INCIPIT_CHECK(heap_[static_cast<size_t>(hole)] == &group);
  group.deadline_index = -1;
  SequenceGroup* last = heap_.back();
  heap_.pop_back();
  if (last == &group) return;
  Place(hole, *last);
  SiftUp(hole);
  SiftDown(last->deadline_index);
}

void DeadlineHeap::Place(int32_t index, SequenceGroup& group) {
  heap_[static_cast<size_t>(index)] = &group;
  group.deadline_index = index;
}

void DeadlineHeap::SiftUp(int32_t index) {
  SequenceGroup& moving = *heap_[static_cast<size_t>(index)];
  while (index > 0) {
    const int32_t above = (index - 1) / 2;
    if (!IsEarlier(moving, *heap_[static_cast<size_t>(above)])) break;
    Place(index, *heap_[static_cast<size_t>(above)]);
    index = above;
  }
  Place(index, moving);
}

void DeadlineHeap::SiftDown(int32_t index) {
  SequenceGroup& moving = *heap_[static_cast<size_t>(index)];
  const auto size = static_cast<int32_t>(heap_.size());
  const auto at = [this](int32_t i) -> SequenceGroup& { return *heap_[static_cast<size_t>(i)]; };
  while (true) {
    int32_t below = 2 * index + 1;
    if (below >= size) break;
    if (below + 1 < size && IsEarlier(at(below + 1), at(below))) ++below;
    if (!IsEarlier(at(below), moving)) break;
    Place(index, at(below));
    index = below;
  }
  Place(index, moving);
}

}  // namespace incipit
