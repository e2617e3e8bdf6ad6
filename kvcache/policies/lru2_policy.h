// The eviction policy `lru-2`: evicts the block whose second-last use was longest ago.
#pragma once

#include <vector>

#include "kvcache/policies/block_order.h"
#include "kvcache/policies/eviction_policy.h"
#include "kvcache/policies/ghost_table.h"

namespace incipit {

// LRU-2 (O'Neil, O'Neil, Weikum: "The LRU-K page replacement algorithm for database disk
// buffering", 1993). Evicts first the blocks that were used once, in the order of this use, and
// then the other blocks in the order of their second-last use. Also remembers the uses of evicted
// blocks.
//
// Measures time in ticks: a tick is n / 256 block uses, where n is the number of cache blocks.
class Lru2Policy final : public EvictionPolicy {
 public:
  Lru2Policy(std::span<Block> blocks, int32_t capacity);

  void Use(std::span<const BlockId> found, SequenceUse& use) override;
  void Add(BlockId id, BlockOrigin origin, SequenceUse& use) override;
  void Release(std::span<const BlockId> freed, const SequenceUse& use) override;
  BlockId Evict() override;
  void Remove(BlockId id) override { order_.Remove(id); }
  void OnChildless(BlockId id) override;
  void Clear() override { order_.Clear(); }
  size_t num_bytes() const override;

 private:
  // List kOnce: blocks that were used once. List kAncient: blocks whose second-last use was kSlots
  // or more clock ticks ago. List kFirstSlot + t % kSlots: blocks whose second-last use was in
  // clock tick t.
  static constexpr int kOnce = 0, kAncient = 1, kFirstSlot = 2, kSlots = 1024;
  static constexpr int kTicksPerCapacity = 256;

  // Times of the last use and of the second-last use of a block, in clock ticks (16 bits). 0: no
  // such use.
  struct Uses {
    uint16_t last = 0, previous = 0;
  };

  Uses& UsesOf(BlockId id) { return uses_[static_cast<size_t>(id)]; }
  uint16_t now() const { return static_cast<uint16_t>(tick_ % 0xffff + 1); }
  int ListFor(uint16_t previous) const;
  uint16_t LongAgo() const;
  void Advance(uint64_t num_touches);

  BlockOrder order_;
  std::vector<Uses> uses_;
  // Evicted blocks that the policy remembers. Value of an entry: time of the eviction (upper 16
  // bits) and time of the last use (lower 16 bits), in clock ticks.
  GhostTable ghosts_;
  uint64_t touches_per_tick_;
  uint64_t num_touches_ = 0;
  uint64_t tick_ = 0;
};

}  // namespace incipit
