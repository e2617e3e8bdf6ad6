#include "kvcache/policies/lru_policy.h"

namespace incipit {

void LruPolicy::Use(std::span<const BlockId> found, SequenceUse&) {
  for (size_t i = 0; i < found.size(); ++i) {
    if (!IsInOrder(found[i])) continue;
    // Find blocks of `found` that are adjacent in the eviction order, to remove them with one
    // operation.
    const size_t begin = i;
    IsInOrder(found[i]) = false;
    while (i + 1 < found.size() && At(blocks_, found[i]).prev == found[i + 1]) {
      IsInOrder(found[++i]) = false;
    }
    order_.RemoveRange(blocks_, found[i], found[begin]);
  }
}

void LruPolicy::Release(std::span<const BlockId> freed, const SequenceUse&) {
  order_.PushBackReversed(blocks_, freed, [this](BlockId id) { IsInOrder(id) = true; });
}

BlockId LruPolicy::Evict() {
  BlockId id = order_.front;
  while (id != kNoBlock && At(blocks_, id).is_needed(id)) id = At(blocks_, id).next;
  if (id != kNoBlock) Remove(id);
  return id;
}

void LruPolicy::Remove(BlockId id) {
  order_.Remove(blocks_, id);
  IsInOrder(id) = false;
}

}  // namespace incipit
