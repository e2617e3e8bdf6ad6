#include "kvcache/pool/block_index.h"

#include "base/check.h"

namespace incipit {
namespace {

constexpr size_t kEntriesPerBucket = 5;

}  // namespace

BlockIndex::BlockIndex(int32_t num_blocks_max)
    : num_buckets_(static_cast<size_t>(num_blocks_max) / kEntriesPerBucket + 1),
      buckets_(num_buckets_),
      num_max_(num_blocks_max) {
  INCIPIT_CHECK(num_blocks_max > 0);
}

void BlockIndex::Replace(uint64_t prefix, BlockId block, BlockId by) {
  const Position position = PositionOf(prefix, block);
  buckets_[position.bucket].blocks[position.slot] = by;
}

void BlockIndex::Remove(uint64_t prefix, BlockId block) {
  const Position position = PositionOf(prefix, block);
  for (size_t passed = Home(prefix); passed != position.bucket; passed = After(passed)) {
    if (buckets_[passed].num_passed < kPassedMax) --buckets_[passed].num_passed;
  }
  buckets_[position.bucket].used &= static_cast<uint16_t>(~(1u << position.slot));
  --size_;
}

void BlockIndex::Clear() {
  std::ranges::fill(buckets_, Bucket{});
  size_ = 0;
}

BlockIndex::Position BlockIndex::PositionOf(uint64_t prefix, BlockId block) const {
  const uint16_t tag = Tag(prefix);
  for (size_t at = Home(prefix);; at = After(at)) {
    const Bucket& bucket = buckets_[at];
    for (uint32_t like = bucket.SlotsLike(tag); like != 0; like &= like - 1) {
      const auto slot = static_cast<size_t>(std::countr_zero(like));
      if (bucket.blocks[slot] == block) return {.bucket = at, .slot = slot};
    }
    INCIPIT_CHECK(bucket.num_passed > 0);
  }
}

}  // namespace incipit
