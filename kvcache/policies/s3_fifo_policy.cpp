#include "kvcache/policies/s3_fifo_policy.h"

#include <algorithm>

namespace incipit {

S3FifoPolicy::S3FifoPolicy(std::span<Block> blocks, int32_t capacity)
    : order_(blocks, 2),
      records_(blocks.size()),
      small_max_(std::max(1, capacity / 10)),
      ghosts_(int64_t{capacity} * 9 / 8) {}

void S3FifoPolicy::Use(std::span<const BlockId> found, SequenceUse&) {
  for (const BlockId id : found) {
    if (order_.has(id)) Remove(id);
    if (RecordOf(id).uses < kUsesMax) ++RecordOf(id).uses;
  }
}

void S3FifoPolicy::Add(BlockId id, BlockOrigin origin, SequenceUse&) {
  const bool is_ghost = ghosts_.Take(At(order_.blocks(), id).hash.prefix()).has_value();
  const bool is_reused = is_ghost || origin == BlockOrigin::kLoaded;
  RecordOf(id) = {.uses = 0, .queue = is_reused ? kMain : kSmall};
}

void S3FifoPolicy::Release(std::span<const BlockId> freed, const SequenceUse&) {
  for (size_t i = freed.size(); i-- > 0;) Push(freed[i]);
}

void S3FifoPolicy::Push(BlockId id) {
  order_.PushBack(RecordOf(id).queue, id);
  ++sizes_[RecordOf(id).queue];
}

void S3FifoPolicy::Remove(BlockId id) {
  if (!order_.is_parked(id)) --sizes_[RecordOf(id).queue];
  order_.Remove(id);
}

BlockId S3FifoPolicy::Evict() {
  while (true) {
    Queue queue = sizes_[kSmall] > small_max_ ? kSmall : kMain;
    if (order_.Front(queue) == kNoBlock) queue = queue == kSmall ? kMain : kSmall;
    const BlockId id = order_.Front(queue);
    if (id == kNoBlock) return kNoBlock;
    Record& record = RecordOf(id);
    --sizes_[queue];
    if (record.uses > 0) {
      record.uses = queue == kSmall ? 0 : record.uses - 1;
      record.queue = kMain;
      order_.Remove(id);
      Push(id);
    } else if (At(order_.blocks(), id).is_needed(id)) {
      order_.Park(id);
    } else {
      order_.Remove(id);
      if (queue == kSmall) Remember(id);
      return id;
    }
  }
}

void S3FifoPolicy::Remember(BlockId id) {
  ghosts_.Insert(At(order_.blocks(), id).hash.prefix(), ++num_evicted_,
                 [](uint32_t) { return false; });
}

void S3FifoPolicy::OnChildless(BlockId id) {
  if (!order_.is_parked(id)) return;
  order_.Remove(id);
  order_.PushFront(RecordOf(id).queue, id);
  ++sizes_[RecordOf(id).queue];
}

void S3FifoPolicy::Clear() {
  order_.Clear();
  sizes_ = {};
}

size_t S3FifoPolicy::num_bytes() const {
  return order_.num_bytes() + records_.size() * sizeof(Record) + ghosts_.num_bytes();
}

}  // namespace incipit
