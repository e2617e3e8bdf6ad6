// Two lists, of blocks used once and more often, whose shares ghosts decide.
#pragma once

#include <array>
#include <vector>

#include "kvcache/policies/block_order.h"
#include "kvcache/policies/eviction_policy.h"
#include "kvcache/policies/ghost_table.h"

namespace incipit {

// ARC (Megiddo, Modha: "ARC: a self-tuning, low overhead replacement cache", FAST'03). What is
// evicted from either list is remembered, together as many as the cache has blocks; a block that
// comes back shows that its list should have been longer.
class ArcPolicy final : public EvictionPolicy {
 public:
  ArcPolicy(std::span<Block> blocks, int32_t capacity);

  void Use(std::span<const BlockId> found, SequenceUse& use) override;
  void Add(BlockId id, SequenceUse& use) override;
  void Release(std::span<const BlockId> freed, const SequenceUse& use) override;
  BlockId Evict() override;
  void Remove(BlockId id) override { Leave(id); }
  void OnChildless(BlockId id) override;
  void Clear() override;
  size_t num_bytes() const override;

 private:
  // The ghosts of one list are those with a stamp from `oldest` on; they are taken to be spread
  // evenly, since only their number is known.
  struct Ghosts {
    double count = 0;
    double oldest = 0;
  };

  uint8_t& ListOf(BlockId id) { return lists_[static_cast<size_t>(id)]; }
  void Leave(BlockId id);
  bool IsRemembered(uint32_t memory) const {
    const Ghosts& ghosts = ghosts_[memory % 2];
    return memory / 2 >= ghosts.oldest && ghosts.count >= 1;
  }
  void Remember(BlockId id);
  // Which list `id` was evicted from, if it is still remembered.
  std::optional<size_t> TakeGhost(BlockId id);

  BlockOrder order_;            // list 0: used once, list 1: more often
  std::vector<uint8_t> lists_;  // of each block, in the order or not
  std::array<int32_t, 2> sizes_{};
  double capacity_;
  double target_ = 0;  // size of list 0
  GhostTable table_;   // memory: 2 * stamp + list
  std::array<Ghosts, 2> ghosts_;
  uint32_t stamp_ = 0;  // of evictions
};

}  // namespace incipit
