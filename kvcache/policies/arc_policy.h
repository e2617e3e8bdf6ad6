// The eviction policy `arc`: two lists, for blocks used once and blocks used again, whose lengths
// adapt to the workload.
#pragma once

#include <array>
#include <vector>

#include "kvcache/policies/block_order.h"
#include "kvcache/policies/eviction_policy.h"
#include "kvcache/policies/ghost_table.h"

namespace incipit {

// ARC (Megiddo, Modha: "ARC: a self-tuning, low overhead replacement cache", FAST'03). One list has
// the blocks that were used once, and the other list has the blocks that were used again. The
// policy remembers the last evicted blocks of both lists, in total as many as the cache has blocks.
// If a remembered block becomes findable again, the target length of the list from which the block
// was evicted grows.
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
  // The evicted blocks of one list that the policy remembers: their number, and the lowest of their
  // eviction numbers (stamps). Both values are estimates.
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
  // Forgets the eviction of block `id`. Returns the index of the list from which the block was
  // evicted, or nothing if the eviction was already forgotten.
  std::optional<size_t> TakeGhost(BlockId id);

  BlockOrder order_;  // list 0: cached blocks that were used once; list 1: cached blocks used again
  // Index of the list of each block (0 or 1). Blocks in use also have an index.
  std::vector<uint8_t> lists_;
  std::array<int32_t, 2> sizes_{};
  double capacity_;
  double target_ = 0;  // target length, in blocks, of the list of blocks that were used once
  GhostTable table_;   // evicted blocks; value of an entry: 2 * eviction number + list index
  std::array<Ghosts, 2> ghosts_;
  uint32_t stamp_ = 0;  // number of evictions by this policy
};

}  // namespace incipit
