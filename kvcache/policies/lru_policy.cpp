#include "kvcache/policies/lru_policy.h"

#include <algorithm>

namespace incipit {

void LruPolicy::Use(std::span<const BlockId> found, SequenceUse&) {
  while (!found.empty()) {
    const bool is_free = is_in_order_[static_cast<size_t>(found.front())];
    const size_t num_removed = is_free ? order_.RemoveRun(blocks_, found) : 0;
    for (const BlockId id : found.first(num_removed)) is_in_order_[static_cast<size_t>(id)] = false;
    found = found.subspan(std::max<size_t>(1, num_removed));
  }
}

void LruPolicy::Release(std::span<const BlockId> freed, const SequenceUse&) {
  order_.PushBackReversed(blocks_, freed);
  for (const BlockId id : freed) is_in_order_[static_cast<size_t>(id)] = true;
}

BlockId LruPolicy::Evict() {
  BlockId id = order_.front;
  while (id != kNoBlock && At(blocks_, id).is_needed(id)) id = At(blocks_, id).next;
  if (id != kNoBlock) Remove(id);
  return id;
}

void LruPolicy::Remove(BlockId id) {
  order_.Remove(blocks_, id);
  is_in_order_[static_cast<size_t>(id)] = false;
}

}  // namespace incipit
