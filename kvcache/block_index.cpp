#include "kvcache/block_index.h"

#include <algorithm>

#include "base/check.h"

namespace incipit {

BlockIndex::BlockIndex(int32_t num_blocks_max)
    : entries_(static_cast<size_t>(num_blocks_max) * 8 / 5 + 2), num_max_(num_blocks_max) {
  INCIPIT_CHECK(num_blocks_max > 0);
}

void BlockIndex::Insert(uint64_t prefix, BlockId block) {
  INCIPIT_CHECK(size_ < num_max_);
  const uint32_t tag = Tag(prefix);
  uint32_t slot = Home(tag);
  while (entries_[slot].block != kNoBlock) slot = After(slot);
  entries_[slot] = {.tag = tag, .block = block};
  ++size_;
}

void BlockIndex::Replace(uint64_t prefix, BlockId block, BlockId by) {
  entries_[SlotOf(prefix, block)].block = by;
}

void BlockIndex::Remove(uint64_t prefix, BlockId block) {
  uint32_t hole = SlotOf(prefix, block);
  // What follows moves back into the hole unless it would then stand before its home.
  for (uint32_t slot = After(hole); entries_[slot].block != kNoBlock; slot = After(slot)) {
    if (Distance(Home(entries_[slot].tag), slot) < Distance(hole, slot)) continue;
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
    slot = After(slot);
  }
  return slot;
}

}  // namespace incipit
