// Three queues: a small one that new blocks must be used in, a main one, and ghosts.
#pragma once

#include <array>
#include <vector>

#include "kvcache/policies/block_order.h"
#include "kvcache/policies/eviction_policy.h"
#include "kvcache/policies/ghost_table.h"

namespace incipit {

// S3-FIFO (Yang, Zhang, Qiu, Yue, Rashmi: "FIFO queues are all you need for cache eviction",
// SOSP'23). A tenth of the cache takes new blocks; what was used there moves to the main queue when
// it comes up, the rest is evicted and remembered; what comes back while it is remembered enters
// the main queue. The main queue gives a block another round for each use, at most three. A block
// that is used leaves its queue and, when it is released, joins the same one again.
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
  std::array<int32_t, 2> sizes_{};  // of the queues, without what is parked
  int32_t small_max_;
  GhostTable ghosts_;         // each with the time of its eviction
  uint32_t num_evicted_ = 0;  // from the small queue
};

}  // namespace incipit
