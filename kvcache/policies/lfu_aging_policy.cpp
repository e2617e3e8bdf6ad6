#include "kvcache/policies/lfu_aging_policy.h"

namespace incipit {

void LfuAgingPolicy::Use(std::span<const BlockId> found, SequenceUse&) {
  for (const BlockId id : found) {
    if (order_.has(id)) order_.Remove(id);
    if (UsesOf(id) < kUsesMax) ++UsesOf(id);
  }
}

void LfuAgingPolicy::Release(std::span<const BlockId> freed, const SequenceUse&) {
  for (size_t i = freed.size(); i-- > 0;) {
    order_.PushBack((age_ + UsesOf(freed[i])) % kLists, freed[i]);
  }
}

BlockId LfuAgingPolicy::Evict() {
  for (int list = order_.FirstOccupied(age_); list >= 0; list = order_.FirstOccupied(age_)) {
    // Set `age_` to the priority of the block that is evicted now. A block that is released later
    // gets the priority `age_` plus its number of uses.
    age_ = list;
    const BlockId victim = order_.Oldest(list);
    if (victim == kNoBlock) continue;
    order_.Remove(victim);
    return victim;
  }
  return kNoBlock;
}

void LfuAgingPolicy::OnChildless(BlockId id) {
  if (!order_.is_parked(id)) return;
  order_.Remove(id);
  // Make `id` the next block to evict, because no other block has a lower priority.
  order_.PushFront(age_, id);
}

}  // namespace incipit
