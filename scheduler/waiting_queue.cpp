#include "scheduler/waiting_queue.h"

#include <algorithm>

#include "base/check.h"

namespace incipit {
namespace {

void ReserveAtLeast(std::vector<Sequence*>& vector, size_t size) {
  if (vector.capacity() < size) vector.reserve(std::max(size, 2 * vector.capacity()));
}

int32_t TenantOf(const Sequence& sequence) { return sequence.group->standing.tenant; }

}  // namespace

bool IsBefore(const Sequence& a, const Sequence& b) {
  const OrderKey& key_a = a.group->standing.key;
  const OrderKey& key_b = b.group->standing.key;
  if (key_a != key_b) return key_a < key_b;
  return a.choice < b.choice;
}

TenantQueue::TenantQueue(size_t window_max) : window_max_(window_max) {
  window_.reserve(window_max + 1);
}

void TenantQueue::ChangeRoom(int32_t change) {
  room_ += change;
  ReserveAtLeast(heap_, static_cast<size_t>(room_));
}

void TenantQueue::Push(Sequence& sequence) {
  INCIPIT_CHECK(!sequence.in_window && sequence.heap_index < 0);
  num_tokens_ += sequence.num_tokens();
  if (window_.size() == window_max_ && !IsBefore(sequence, *window_.back())) {
    PushHeap(sequence);
    return;
  }
  EnterWindow(sequence);
  if (window_.size() <= window_max_) return;
  Sequence& last = *window_.back();
  window_.pop_back();
  last.in_window = false;
  PushHeap(last);
}

void TenantQueue::Remove(Sequence& sequence) {
  num_tokens_ -= sequence.num_tokens();
  if (!sequence.in_window) {
    RemoveFromHeap(sequence);
    return;
  }
  window_.erase(std::ranges::find(window_, &sequence));
  sequence.in_window = false;
  if (heap_.empty()) return;
  Sequence& next = *heap_.front();
  RemoveFromHeap(next);
  EnterWindow(next);
}

void TenantQueue::EnterWindow(Sequence& sequence) {
  sequence.in_window = true;
  sequence.match.is_known = false;
  const auto later = std::ranges::upper_bound(
      window_, &sequence, [](const Sequence* a, const Sequence* b) { return IsBefore(*a, *b); });
  window_.insert(later, &sequence);
}

void TenantQueue::PushHeap(Sequence& sequence) {
  heap_.push_back(&sequence);
  SiftUp(static_cast<int32_t>(heap_.size()) - 1);
}

void TenantQueue::RemoveFromHeap(Sequence& sequence) {
  const int32_t hole = sequence.heap_index;
  INCIPIT_CHECK(hole >= 0 && hole < std::ssize(heap_) && heap_[hole] == &sequence);
  sequence.heap_index = -1;
  Sequence* last = heap_.back();
  heap_.pop_back();
  if (last == &sequence) return;
  Place(hole, *last);
  SiftUp(hole);
  SiftDown(last->heap_index);
}

void TenantQueue::Place(int32_t index, Sequence& sequence) {
  heap_[index] = &sequence;
  sequence.heap_index = index;
}

void TenantQueue::SiftUp(int32_t index) {
  Sequence& moving = *heap_[index];
  while (index > 0) {
    const int32_t above = (index - 1) / 2;
    if (!IsBefore(moving, *heap_[above])) break;
    Place(index, *heap_[above]);
    index = above;
  }
  Place(index, moving);
}

void TenantQueue::SiftDown(int32_t index) {
  Sequence& moving = *heap_[index];
  const auto size = static_cast<int32_t>(heap_.size());
  while (true) {
    int32_t below = 2 * index + 1;
    if (below >= size) break;
    if (below + 1 < size && IsBefore(*heap_[below + 1], *heap_[below])) ++below;
    if (!IsBefore(*heap_[below], moving)) break;
    Place(index, *heap_[below]);
    index = below;
  }
  Place(index, moving);
}

void WaitingQueue::ChangeRoom(int32_t tenant, int32_t change) {
  while (std::ssize(queues_) <= tenant) queues_.emplace_back(window_max_);
  tenants_.reserve(queues_.size());
  queues_[static_cast<size_t>(tenant)].ChangeRoom(change);
}

void WaitingQueue::Push(Sequence& sequence) {
  TenantQueue& queue = queues_[static_cast<size_t>(TenantOf(sequence))];
  if (queue.empty()) tenants_.push_back(TenantOf(sequence));
  queue.Push(sequence);
  ++size_;
}

void WaitingQueue::Remove(Sequence& sequence) {
  TenantQueue& queue = queues_[static_cast<size_t>(TenantOf(sequence))];
  queue.Remove(sequence);
  if (queue.empty()) {
    std::swap(*std::ranges::find(tenants_, TenantOf(sequence)), tenants_.back());
    tenants_.pop_back();
  }
  --size_;
}

}  // namespace incipit
