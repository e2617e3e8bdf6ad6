// The eviction policy `arc`, with a list of blocks used once and a list of blocks used again. The
// lengths of the two lists adapt to the workload.
#pragma once

#include <array>
#include <vector>

#include "kvcache/policies/block_order.h"
#include "kvcache/policies/eviction_policy.h"
#include "kvcache/policies/ghost_table.h"

namespace incipit {

// ARC (Megiddo, Modha: "ARC: a self-tuning, low overhead replacement cache", FAST'03). Has a list
// of blocks that were used once and a list of blocks that were used again. If an evicted block is
// computed again, the list from which the block was evicted may become longer.
class ArcPolicy final : public EvictionPolicy {
 public:
  ArcPolicy(std::span<Block> blocks, int32_t capacity);

  void Use(std::span<const BlockId> found, SequenceUse& use) override;
  void Add(BlockId id, BlockOrigin origin, SequenceUse& use) override;
  void Release(std::span<const BlockId> freed, const SequenceUse& use) override;
  BlockId Evict() override;
  void Remove(BlockId id) override { Leave(id); }
  void OnChildless(BlockId id) override;
  void Clear() override;
  size_t num_bytes() const override;

 private:
  // The evicted blocks of one list that the policy remembers. `count`: estimated number of these
  // blocks. `oldest`: estimated value of `stamp_` when the oldest of these blocks was evicted.
  // `stamp_` is the number of all evictions so far.
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
  // Searches for block `id` among the evicted blocks that the policy remembers, and forgets the
  // block. Returns the list (0 or 1) from which the block was evicted, or std::nullopt if the
  // policy does not remember the block.
  std::optional<size_t> TakeGhost(BlockId id);

  // List 0: cached blocks that were used once; list 1: cached blocks used again.
  BlockOrder order_;
  // For each block, also for blocks in use: index (0 or 1) of its list in `order_`.
  std::vector<uint8_t> lists_;
  std::array<int32_t, 2> sizes_{};
  double capacity_;
  double target_ = 0;  // target number of blocks in the list of blocks that were used once
  // Evicted blocks that the policy remembers. Value of an entry: 2 * (value of `stamp_` after the
  // eviction) + index of the list from which the block was evicted.
  GhostTable table_;
  std::array<Ghosts, 2> ghosts_;
  uint32_t stamp_ = 0;  // number of blocks that this policy has evicted
};

}  // namespace incipit
