// The eviction policy `lru-2`: evicts the block whose second-last use was longest ago.
#pragma once

#include <vector>

#include "kvcache/policies/block_order.h"
#include "kvcache/policies/eviction_policy.h"
#include "kvcache/policies/ghost_table.h"

namespace incipit {

// LRU-2 (O'Neil, O'Neil, Weikum: "The LRU-K page replacement algorithm for database disk
// buffering", 1993). Blocks that were used once are evicted first, by age. The other blocks are
// evicted by the time of their second-last use. The policy also remembers the uses of about as many
// evicted blocks as the cache has blocks.
//
// Time is counted in uses of single blocks, with a resolution (tick) of 1/256 of the number of
// cache blocks. A block is ancient if its second-last use is more than 4 times the number of cache
// blocks ago, counted in block uses. Ancient blocks are ordered by the time at which the blocks
// became ancient.
class Lru2Policy final : public EvictionPolicy {
 public:
  Lru2Policy(std::span<Block> blocks, int32_t capacity);

  void Use(std::span<const BlockId> found, SequenceUse& use) override;
  void Add(BlockId id, SequenceUse& use) override;
  void Release(std::span<const BlockId> freed, const SequenceUse& use) override;
  BlockId Evict() override;
  void Remove(BlockId id) override { order_.Remove(id); }
  void OnChildless(BlockId id) override;
  void Clear() override { order_.Clear(); }
  size_t num_bytes() const override;

 private:
  // Indices of the lists: kOnce for blocks that were used once, kAncient for ancient blocks, and
  // kSlots lists from kFirstSlot on, which form a ring. A slot of the ring holds the blocks whose
  // second-last use was in a clock tick with the same remainder by kSlots.
  static constexpr int kOnce = 0, kAncient = 1, kFirstSlot = 2, kSlots = 1024;
  static constexpr int kTicksPerCapacity = 256;

  // The clock ticks of the last two uses of a block, reduced to 16 bits; 0: no use.
  struct Uses {
    uint16_t last = 0, previous = 0;
  };

  Uses& UsesOf(BlockId id) { return uses_[static_cast<size_t>(id)]; }
  uint16_t now() const { return static_cast<uint16_t>(tick_ % 0xffff + 1); }
  int ListFor(uint16_t previous) const;
  void Advance(uint64_t num_touches);

  BlockOrder order_;
  std::vector<Uses> uses_;
  // Evicted blocks; a value has 16 bits of the eviction tick, then of the last use.
  GhostTable ghosts_;
  uint64_t touches_per_tick_;
  uint64_t num_touches_ = 0;
  uint64_t tick_ = 0;
};

}  // namespace incipit
