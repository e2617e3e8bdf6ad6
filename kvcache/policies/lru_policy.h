// The eviction policy `lru`: evicts the block without users that was released longest ago.
#pragma once

#include <vector>

#include "kvcache/policies/eviction_policy.h"

namespace incipit {

// Evicts the block without users that was released longest ago. Skips a block while a later block
// of the same prompt is cached.
class LruPolicy final : public EvictionPolicy {
 public:
  explicit LruPolicy(std::span<Block> blocks) : blocks_(blocks), is_in_order_(blocks.size()) {}

  void Use(std::span<const BlockId> found, SequenceUse& use) override;
  void Add(BlockId, BlockOrigin, SequenceUse&) override {}
  void Release(std::span<const BlockId> freed, const SequenceUse& use) override;
  BlockId Evict() override;
  void Remove(BlockId id) override;
  void OnChildless(BlockId) override {}
  // Does nothing: free blocks stay in the eviction order even if lookups cannot find the blocks.
  void Clear() override {}
  bool orders_unpublished() const override { return true; }
  bool is_next_unpublished() const override {
    return !order_.empty() && !At(blocks_, order_.front).published;
  }
  size_t num_bytes() const override { return is_in_order_.capacity(); }

 private:
  char& IsInOrder(BlockId id) { return is_in_order_[static_cast<size_t>(id)]; }

  std::span<Block> blocks_;
  BlockList order_;
  std::vector<char> is_in_order_;
};

}  // namespace incipit
