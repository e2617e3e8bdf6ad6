// From a key to the block that answers for it: a flat open-addressing table made once at start,
// because a node-based map would allocate on every publication.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/table.h"
#include "base/types.h"

namespace incipit {

// Maps a hash prefix to a block. Several entries may carry the same prefix; the caller compares the
// whole digest, which lies in the block's metadata. Linear probing at a load of at most 5/8: a
// search stays within a cache line or two. Removal shifts back what follows, so that there are no
// tombstones.
class BlockIndex {
 public:
  explicit BlockIndex(int32_t num_blocks_max);

  // The first block of that prefix for which `equal(block)` holds, or kNoBlock.
  template <typename Equal>
  BlockId Find(uint64_t prefix, const Equal& equal) const {
    const uint32_t tag = Tag(prefix);
    for (uint32_t slot = Home(tag);; slot = After(slot)) {
      const Entry& entry = entries_[slot];
      if (entry.block == kNoBlock) return kNoBlock;
      if (entry.tag == tag && equal(entry.block)) return entry.block;
    }
  }

  // The first block whose entry has the tag of `prefix`, or kNoBlock: what Find will most likely
  // look at, for a caller that wants its metadata to be on its way.
  BlockId Guess(uint64_t prefix) const {
    return Find(prefix, [](BlockId) { return true; });
  }
  // Always inlined, or gcc takes it for a function without effect and drops its calls.
  [[gnu::always_inline]] void Prefetch(uint64_t prefix) const {
    __builtin_prefetch(&entries_[Home(Tag(prefix))]);
  }

  // REQUIRES: fewer than num_blocks_max entries.
  void Insert(uint64_t prefix, BlockId block);
  // REQUIRES: `block` is an entry of that prefix.
  void Replace(uint64_t prefix, BlockId block, BlockId by);
  void Remove(uint64_t prefix, BlockId block);
  void Clear();

  int32_t size() const { return size_; }
  size_t num_bytes() const { return entries_.capacity() * sizeof(Entry); }

 private:
  struct Entry {
    uint32_t tag = 0;
    BlockId block = kNoBlock;
  };

  static uint32_t Tag(uint64_t prefix) { return static_cast<uint32_t>(prefix); }
  // Spreads tags over any number of slots without a division.
  uint32_t Home(uint32_t tag) const {
    return static_cast<uint32_t>(uint64_t{tag} * entries_.size() >> 32);
  }
  uint32_t After(uint32_t slot) const { return slot + 1 == entries_.size() ? 0 : slot + 1; }
  uint32_t Distance(uint32_t from, uint32_t to) const {
    return to >= from ? to - from : to + static_cast<uint32_t>(entries_.size()) - from;
  }
  uint32_t SlotOf(uint64_t prefix, BlockId block) const;

  Table<Entry> entries_;
  int32_t num_max_ = 0;
  int32_t size_ = 0;
};

}  // namespace incipit
