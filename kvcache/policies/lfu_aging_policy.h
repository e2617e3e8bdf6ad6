// Least frequently used with dynamic aging.
#pragma once

#include <vector>

#include "kvcache/policies/block_order.h"
#include "kvcache/policies/eviction_policy.h"

namespace incipit {

// LFU-DA (Arlitt, Cherkasova, Dilley, Friedrich, Jin: "Evaluating content management techniques for
// Web proxy caches", 1999): a block's priority is the number of its uses since it entered the cache
// plus the age of the cache when it was last used; the age is the priority of the last victim. Ties
// go to the oldest. Uses are counted to kUsesMax, so that the priorities in use fit a ring of
// lists.
class LfuAgingPolicy final : public EvictionPolicy {
 public:
  explicit LfuAgingPolicy(std::span<Block> blocks) : order_(blocks, kLists), uses_(blocks.size()) {}

  void Use(std::span<const BlockId> found, SequenceUse& use) override;
  void Add(BlockId id, SequenceUse&) override { UsesOf(id) = 1; }
  void Release(std::span<const BlockId> freed, const SequenceUse& use) override;
  BlockId Evict() override;
  void Remove(BlockId id) override { order_.Remove(id); }
  void OnChildless(BlockId id) override;
  void Clear() override { order_.Clear(); }
  size_t num_bytes() const override { return order_.num_bytes() + uses_.size(); }

 private:
  static constexpr int kLists = 256;
  static constexpr uint8_t kUsesMax = kLists - 1;

  uint8_t& UsesOf(BlockId id) { return uses_[static_cast<size_t>(id)]; }

  BlockOrder order_;           // a priority's list is its remainder by kLists
  std::vector<uint8_t> uses_;  // since the block entered the cache
  int age_ = 0;                // of the cache, as a list
};

}  // namespace incipit
