// From a key to the block that holds it: a flat open-addressing table made once at start, because a
// node-based map would allocate on every publication.
#pragma once

#include <cstdint>
#include <vector>

#include "base/types.h"

namespace incipit {

// Maps a hash prefix to a block. Several entries may carry the same prefix; the caller compares the
// whole digest, which lives in the block's metadata. Linear probing at a load of at most one half;
// removal shifts back what follows, so that there are no tombstones.
class BlockIndex {
 public:
  explicit BlockIndex(int32_t num_blocks_max);

  // The first block of that prefix for which `equal(block)` holds, or kNoBlock.
  template <typename Equal>
  BlockId Find(uint64_t prefix, const Equal& equal) const {
    const uint32_t tag = Tag(prefix);
    for (uint32_t slot = Home(tag);; slot = (slot + 1) & mask_) {
      const Entry& entry = entries_[slot];
      if (entry.block == kNoBlock) return kNoBlock;
      if (entry.tag == tag && equal(entry.block)) return entry.block;
    }
  }

  // REQUIRES: fewer than num_blocks_max entries.
  void Insert(uint64_t prefix, BlockId block);
  // REQUIRES: `block` is an entry of that prefix.
  void Replace(uint64_t prefix, BlockId block, BlockId by);
  void Remove(uint64_t prefix, BlockId block);
  void Clear();

  int32_t size() const { return size_; }

 private:
  struct Entry {
    uint32_t tag = 0;
    BlockId block = kNoBlock;
  };

  static uint32_t Tag(uint64_t prefix) { return static_cast<uint32_t>(prefix); }
  uint32_t Home(uint32_t tag) const { return tag & mask_; }
  uint32_t SlotOf(uint64_t prefix, BlockId block) const;

  std::vector<Entry> entries_;
  uint32_t mask_ = 0;
  int32_t num_max_ = 0;
  int32_t size_ = 0;
};

}  // namespace incipit
