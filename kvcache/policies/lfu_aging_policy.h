// The eviction policy `lfu-aging`: least frequently used (LFU), with dynamic aging.
#pragma once

#include <vector>

#include "kvcache/policies/block_order.h"
#include "kvcache/policies/eviction_policy.h"

namespace incipit {

// LFU-DA (Arlitt, Cherkasova, Dilley, Friedrich, Jin: "Evaluating content management techniques for
// Web proxy caches", 1999). Each use sets the priority of a block to its number of uses plus the
// priority of the block that was evicted last. The block with the lowest priority is evicted first.
class LfuAgingPolicy final : public EvictionPolicy {
 public:
  explicit LfuAgingPolicy(std::span<Block> blocks) : order_(blocks, kLists), uses_(blocks.size()) {}

  void Use(std::span<const BlockId> found, SequenceUse& use) override;
  void Add(BlockId id, BlockOrigin origin, SequenceUse&) override {
    UsesOf(id) = origin == BlockOrigin::kLoaded ? 2 : 1;
  }
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

  // Lists of the cached blocks. A block with priority p is in list p % kLists.
  BlockOrder order_;
  std::vector<uint8_t> uses_;  // number of uses of each block since the block was cached
  int age_ = 0;                // priority of the last evicted block, modulo kLists
};

}  // namespace incipit
