#include "kvcache/block_index.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace incipit {

BlockIndex::BlockIndex(int32_t num_blocks_max) : num_max_(num_blocks_max) {
  INCIPIT_CHECK(num_blocks_max > 0);
  const uint32_t num_slots = std::bit_ceil(2 * static_cast<uint32_t>(num_blocks_max));
  entries_.resize(num_slots);
  mask_ = num_slots - 1;
}

void BlockIndex::Insert(uint64_t prefix, BlockId block) {
  INCIPIT_CHECK(size_ < num_max_);
  const uint32_t tag = Tag(prefix);
  uint32_t slot = Home(tag);
  while (entries_[slot].block != kNoBlock) slot = (slot + 1) & mask_;
  entries_[slot] = {.tag = tag, .block = block};
  ++size_;
}

void BlockIndex::Replace(uint64_t prefix, BlockId block, BlockId by) {
  entries_[SlotOf(prefix, block)].block = by;
}

void BlockIndex::Remove(uint64_t prefix, BlockId block) {
  uint32_t hole = SlotOf(prefix, block);
  // What follows moves back into the hole unless it would then stand before its home.
  for (uint32_t slot = (hole + 1) & mask_; entries_[slot].block != kNoBlock;
       slot = (slot + 1) & mask_) {
    const uint32_t distance_from_home = (slot - Home(entries_[slot].tag)) & mask_;
    if (distance_from_home < ((slot - hole) & mask_)) continue;
    entries_[hole] = entries_[slot];
    hole = slot;
  }
  entries_[hole] = {};
  --size_;
}

void BlockIndex::Clear() {
  std::ranges::fill(entries_, Entry{});
  size_ = 0;
}

uint32_t BlockIndex::SlotOf(uint64_t prefix, BlockId block) const {
  uint32_t slot = Home(Tag(prefix));
  while (entries_[slot].block != block) {
    INCIPIT_CHECK(entries_[slot].block != kNoBlock);
    slot = (slot + 1) & mask_;
  }
  return slot;
}

}  // namespace incipit
