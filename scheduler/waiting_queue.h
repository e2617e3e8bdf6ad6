// The waiting sequences: one queue for each tenant.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/sequence.h"

namespace incipit {

// Returns true if `a` is before `b` in the queue of their tenant: `a` has a smaller order key, or
// both belong to one request and `a` has a smaller choice number.
bool IsBefore(const Sequence& a, const Sequence& b);

// The waiting sequences of one tenant, ordered by IsBefore. The first `window_max` sequences are
// the window. The scheduler may admit a sequence of the window before earlier sequences.
//
// The window is a sorted array, and the sequences behind the window are a binary heap. Push and
// Remove take O(window_max + log(number of sequences)) time.
class TenantQueue {
 public:
  explicit TenantQueue(size_t window_max);

  // Adds `change` to the maximum number of sequences in the queue. Push allocates no memory up to
  // this maximum.
  void ChangeRoom(int32_t change);
  void Push(Sequence& sequence);
  // REQUIRES: `sequence` is in this queue.
  void Remove(Sequence& sequence);

  bool empty() const { return window_.empty(); }
  // Number of tokens of all sequences in the queue.
  int64_t num_tokens() const { return num_tokens_; }
  Sequence& front() const { return *window_.front(); }
  // The first sequences, in the order of IsBefore.
  std::span<Sequence* const> window() const { return window_; }

 private:
  void EnterWindow(Sequence& sequence);
  void PushHeap(Sequence& sequence);
  void RemoveFromHeap(Sequence& sequence);
  void SiftUp(int32_t index);
  void SiftDown(int32_t index);
  void Place(int32_t index, Sequence& sequence);

  size_t window_max_;
  std::vector<Sequence*> window_;
  // The sequences that are not in `window_`, as a binary heap. Sequence::heap_index is the index in
  // this heap, so that Remove need not search.
  std::vector<Sequence*> heap_;
  int32_t room_ = 0;
  int64_t num_tokens_ = 0;
};

// All waiting sequences.
class WaitingQueue {
 public:
  // The scheduler may reorder only the first `window_max` waiting sequences of each tenant.
  // REQUIRES: `window_max` is at least 1.
  explicit WaitingQueue(int32_t window_max) : window_max_(static_cast<size_t>(window_max)) {}

  // Adds `change` to the maximum number of waiting sequences of `tenant`.
  void ChangeRoom(int32_t tenant, int32_t change);
  // Adds `sequence` to the queue of its tenant. REQUIRES: ChangeRoom made room for the sequence.
  void Push(Sequence& sequence);
  void Remove(Sequence& sequence);

  bool empty() const { return size_ == 0; }
  int32_t size() const { return size_; }
  // Returns the indices of the tenants with sequences in the queue, in no particular order.
  std::span<const int32_t> tenants() const { return tenants_; }
  const TenantQueue& of(int32_t tenant) const { return queues_[static_cast<size_t>(tenant)]; }

 private:
  size_t window_max_;
  std::vector<TenantQueue> queues_;  // one queue for each tenant index
  std::vector<int32_t> tenants_;
  int32_t size_ = 0;
};

}  // namespace incipit
