// From a key to its canonical block: a flat table made once at start, because a
// node-based map would allocate on every publication.
#pragma once

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/table.h"
#include "base/types.h"

namespace incipit {

// Maps a hash prefix to a block. Several entries may carry the same prefix; the caller compares the
// whole digest, which lies in the block's metadata. Entries stand in buckets of one cache line; one
// whose bucket is full stands in the next that is not, and each bucket counts the entries that went
// past it, so that a search knows where to end and a removal moves nothing. Buckets are half full
// on average, where 2 % of them are full.
class BlockIndex {
 public:
  explicit BlockIndex(int32_t num_blocks_max);

  // A block of that prefix for which `equal(block)` holds, or kNoBlock.
  template <typename Equal>
  BlockId Find(uint64_t prefix, const Equal& equal) const {
    const uint16_t tag = Tag(prefix);
    for (size_t home = Home(prefix);; home = After(home)) {
      const Bucket& bucket = buckets_[home];
      for (uint32_t like = bucket.SlotsLike(tag); like != 0; like &= like - 1) {
        const BlockId block = bucket.blocks[static_cast<size_t>(std::countr_zero(like))];
        if (equal(block)) return block;
      }
      if (bucket.num_passed == 0) return kNoBlock;
    }
  }

  // What Find will most likely look at first, for a caller that wants its metadata to be on its
  // way; kNoBlock says nothing.
  BlockId Guess(uint64_t prefix) const {
    const Bucket& bucket = buckets_[Home(prefix)];
    const uint32_t like = bucket.SlotsLike(Tag(prefix));
    return like == 0 ? kNoBlock : bucket.blocks[static_cast<size_t>(std::countr_zero(like))];
  }
  // Always inlined, or gcc takes it for a function without effect and drops its calls.
  [[gnu::always_inline]] void Prefetch(uint64_t prefix) const {
    __builtin_prefetch(&buckets_[Home(prefix)], 1);
  }

  // REQUIRES: fewer than num_blocks_max entries.
  void Insert(uint64_t prefix, BlockId block);
  // REQUIRES: `block` is an entry of that prefix.
  void Replace(uint64_t prefix, BlockId block, BlockId by);
  void Remove(uint64_t prefix, BlockId block);
  void Clear();

  int32_t size() const { return size_; }
  size_t num_bytes() const { return buckets_.capacity() * sizeof(Bucket); }

 private:
  static constexpr size_t kSlots = 10;
  static constexpr uint32_t kFull = (1u << kSlots) - 1;

  struct alignas(64) Bucket {
    std::array<uint16_t, kSlots> tags{};
    uint16_t used = 0;  // a bit a slot
    // Entries that were to stand here or before, and stand behind. At kPassedMax it stays.
    uint16_t num_passed = 0;
    std::array<BlockId, kSlots> blocks{};

    // A bit for each slot whose entry has the tag.
    uint32_t SlotsLike(uint16_t tag) const {
#ifdef __SSE2__
      // The second half of what is compared has two more tags; `used` has no bit for the rest.
      const auto* eights = reinterpret_cast<const __m128i*>(this);
      const __m128i wanted = _mm_set1_epi16(static_cast<int16_t>(tag));
      const __m128i like = _mm_packs_epi16(_mm_cmpeq_epi16(_mm_load_si128(eights), wanted),
                                           _mm_cmpeq_epi16(_mm_load_si128(eights + 1), wanted));
      return static_cast<uint32_t>(_mm_movemask_epi8(like)) & used;
#else
      uint32_t slots = 0;
      for (size_t i = 0; i < kSlots; ++i) slots |= uint32_t{tags[i] == tag} << i;
      return slots & used;
#endif
    }
  };
  static_assert(sizeof(Bucket) == 64);
  static constexpr uint16_t kPassedMax = 0xffff;

  struct Position {
    size_t bucket = 0, slot = 0;
  };

  static uint16_t Tag(uint64_t prefix) { return static_cast<uint16_t>(prefix >> 48); }
  // Spreads prefixes over any number of buckets without a division.
  size_t Home(uint64_t prefix) const { return (prefix & 0xffffffff) * num_buckets_ >> 32; }
  size_t After(size_t bucket) const { return bucket + 1 == num_buckets_ ? 0 : bucket + 1; }
  Position PositionOf(uint64_t prefix, BlockId block) const;

  uint64_t num_buckets_;
  Table<Bucket> buckets_;
  int32_t num_max_ = 0;
  int32_t size_ = 0;
};

inline void BlockIndex::Insert(uint64_t prefix, BlockId block) {
  INCIPIT_CHECK(size_ < num_max_);
  size_t at = Home(prefix);
  while (buckets_[at].used == kFull) {
    Bucket& full = buckets_[at];
    if (full.num_passed < kPassedMax) ++full.num_passed;
    at = After(at);
  }
  Bucket& bucket = buckets_[at];
  const auto slot = static_cast<size_t>(std::countr_one(bucket.used));
  bucket.tags[slot] = Tag(prefix);
  bucket.blocks[slot] = block;
  bucket.used |= static_cast<uint16_t>(1u << slot);
  ++size_;
}

}  // namespace incipit
