// The eviction policy `s3-fifo`, with a small queue of new blocks and a main queue of blocks that
// were used again.
#pragma once

#include <array>
#include <vector>

#include "kvcache/policies/block_order.h"
#include "kvcache/policies/eviction_policy.h"
#include "kvcache/policies/ghost_table.h"

namespace incipit {

// S3-FIFO (Yang, Zhang, Qiu, Yue, Rashmi: "FIFO queues are all you need for cache eviction",
// SOSP'23). New blocks enter a small queue. At the front of the small queue, a block that was used
// again moves to the main queue, and any other block is evicted. If an evicted block is computed
// again, the block enters the main queue.
//
// At the front of the main queue, a block that was used again moves to the back instead of being
// evicted.
class S3FifoPolicy final : public EvictionPolicy {
 public:
  S3FifoPolicy(std::span<Block> blocks, int32_t capacity);

  void Use(std::span<const BlockId> found, SequenceUse& use) override;
  void Add(BlockId id, BlockOrigin origin, SequenceUse& use) override;
  void Release(std::span<const BlockId> freed, const SequenceUse& use) override;
  BlockId Evict() override;
  void Remove(BlockId id) override;
  void OnChildless(BlockId id) override;
  void Clear() override;
  size_t num_bytes() const override;

 private:
  enum Queue : uint8_t { kSmall, kMain };
  static constexpr uint8_t kUsesMax = 3;
  struct Record {
    uint8_t uses : 2 = 0;
    uint8_t queue : 1 = kSmall;
  };

  Record& RecordOf(BlockId id) { return records_[static_cast<size_t>(id)]; }
  void Push(BlockId id);
  void Remember(BlockId id);

  BlockOrder order_;
  std::vector<Record> records_;
  // Lengths of the small queue and of the main queue, without blocks that must not be evicted yet.
  std::array<int32_t, 2> sizes_{};
  int32_t small_max_;
  // Evicted blocks that the policy remembers. Value of an entry: value of num_evicted_ when the
  // block was evicted.
  GhostTable ghosts_;
  uint32_t num_evicted_ = 0;  // number of evictions from the small queue
};

}  // namespace incipit
