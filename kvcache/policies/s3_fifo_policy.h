// The eviction policy `s3-fifo`: a small queue for new blocks, a main queue, and a memory of
// evicted blocks (ghosts).
#pragma once

#include <array>
#include <vector>

#include "kvcache/policies/block_order.h"
#include "kvcache/policies/eviction_policy.h"
#include "kvcache/policies/ghost_table.h"

namespace incipit {

// S3-FIFO (Yang, Zhang, Qiu, Yue, Rashmi: "FIFO queues are all you need for cache eviction",
// SOSP'23). New blocks enter the small queue, which has a tenth of the cache. If a block at the
// front of the small queue was used again, the block moves to the main queue. Otherwise the block
// is evicted, and the policy remembers its key. If a remembered block becomes findable again, the
// block enters the main queue.
//
// If a block at the front of the main queue was used again, the block moves to the end of the queue
// instead of being evicted. Each use of the block, up to three, allows one such move. A block in
// use is in no queue, and joins its previous queue when the block is released.
class S3FifoPolicy final : public EvictionPolicy {
 public:
  S3FifoPolicy(std::span<Block> blocks, int32_t capacity);

  void Use(std::span<const BlockId> found, SequenceUse& use) override;
  void Add(BlockId id, SequenceUse& use) override;
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
  // Lengths of the small queue and of the main queue. Parked blocks (blocks that must not be
  // evicted now) are not counted.
  std::array<int32_t, 2> sizes_{};
  int32_t small_max_;
  GhostTable ghosts_;         // evicted blocks; the value of an entry is the number of the eviction
  uint32_t num_evicted_ = 0;  // number of evictions from the small queue of new blocks
};

}  // namespace incipit
