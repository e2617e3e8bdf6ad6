#include "kvcache/policies/lru_policy.h"

namespace incipit {

void LruPolicy::Use(std::span<const BlockId> found, SequenceUse&) {
  for (const BlockId id : found) {
    if (is_in_order_[static_cast<size_t>(id)]) Remove(id);
  }
}

void LruPolicy::Release(std::span<const BlockId> freed, const SequenceUse&) {
  for (auto id = freed.rbegin(); id != freed.rend(); ++id) {
    order_.PushBack(blocks_, *id);
    is_in_order_[static_cast<size_t>(*id)] = true;
  }
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
