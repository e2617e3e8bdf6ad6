// By the last use but one.
#pragma once

#include <vector>

#include "kvcache/policies/block_order.h"
#include "kvcache/policies/eviction_policy.h"
#include "kvcache/policies/ghost_table.h"

namespace incipit {

// LRU-2 (O'Neil, O'Neil, Weikum: "The LRU-K page replacement algorithm for database disk
// buffering", 1993): first the blocks that were used once, by age; then those whose last use but
// one was longest ago. Uses are remembered past eviction for as many blocks as the cache has. Time
// counts in touches of blocks and is kept to a quarter of a hundredth of the capacity; uses further
// back than four capacities are ordered by when they became so old.
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
  // The lists. The slots are a ring: a slot holds the blocks whose last use but one was in a tick
  // of the same remainder.
  static constexpr int kOnce = 0, kAncient = 1, kFirstSlot = 2, kSlots = 1024;
  static constexpr int kTicksPerCapacity = 256;

  // Ticks, of which only the low bits are kept; 0 is none.
  struct Uses {
    uint16_t last = 0, previous = 0;
  };

  Uses& UsesOf(BlockId id) { return uses_[static_cast<size_t>(id)]; }
  uint16_t now() const { return static_cast<uint16_t>(tick_ % 0xffff + 1); }
  int ListFor(uint16_t previous) const;
  void Advance(uint64_t num_touches);

  BlockOrder order_;
  std::vector<Uses> uses_;
  GhostTable ghosts_;  // memory: 16 bits of the tick of eviction, then the last use
  uint64_t touches_per_tick_;
  uint64_t num_touches_ = 0;
  uint64_t tick_ = 0;
};

}  // namespace incipit
