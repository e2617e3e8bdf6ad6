// A hash table from keys to the blocks that lookups return. All memory is allocated at
// construction.
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

// Maps the first 64 bits (prefix) of a key to a block. Several keys may have the same prefix, so
// the caller must compare the whole digest.
//
// The table consists of buckets of one cache line, with 10 slots each. If the bucket of an entry is
// full, the entry is stored in the next bucket that has a free slot. A full bucket counts such
// entries, so that a search knows where to stop. If the table has num_blocks_max entries, 2 % of
// the buckets are full.
class BlockIndex {
 public:
  explicit BlockIndex(int32_t num_blocks_max);

  // Returns a block with the key prefix `prefix` for which `equal(block)` is true, or kNoBlock.
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

  // Returns the block that Find(prefix) probably returns. The caller can prefetch the metadata of
  // this block. If Guess returns kNoBlock, Find may still find a block.
  BlockId Guess(uint64_t prefix) const {
    const Bucket& bucket = buckets_[Home(prefix)];
    const uint32_t like = bucket.SlotsLike(Tag(prefix));
    return like == 0 ? kNoBlock : bucket.blocks[static_cast<size_t>(std::countr_zero(like))];
  }
  // Prefetches the bucket of `prefix`. Without always_inline, gcc treats this function as a
  // function without effect and removes its calls.
  [[gnu::always_inline]] void Prefetch(uint64_t prefix) const {
    __builtin_prefetch(&buckets_[Home(prefix)], 1);
  }

  // Adds an entry that maps `prefix` to `block`. REQUIRES: the index has fewer than num_blocks_max
  // entries.
  void Insert(uint64_t prefix, BlockId block);
  // Replaces the block `block` in the entry of `prefix` by the block `by`. REQUIRES: the index maps
  // `prefix` to `block`.
  void Replace(uint64_t prefix, BlockId block, BlockId by);
  // Removes the entry that maps `prefix` to `block`. REQUIRES: the index has this entry.
  void Remove(uint64_t prefix, BlockId block);
  void Clear();

  int32_t size() const { return size_; }
  size_t num_bytes() const { return buckets_.capacity() * sizeof(Bucket); }

 private:
  static constexpr size_t kSlots = 10;
  static constexpr uint32_t kFull = (1u << kSlots) - 1;

  struct alignas(64) Bucket {
    std::array<uint16_t, kSlots> tags{};
    uint16_t used = 0;  // bit i is 1 if slot i has an entry
    // Number of entries that are stored in later buckets because this bucket was full. A number
    // that has reached kPassedMax is never decreased.
    uint16_t num_passed = 0;
    std::array<BlockId, kSlots> blocks{};

    // Returns a bit mask: bit i is 1 if slot i has an entry with the tag `tag`.
    uint32_t SlotsLike(uint16_t tag) const {
#ifdef __SSE2__
      // One comparison covers 16 numbers: the 10 tags and the 6 numbers that follow the tags in
      // memory. The bit mask `used` clears the result bits of these 6 numbers.
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
  // Returns the bucket of `prefix`, computed without a division. Prefixes are spread evenly over
  // the buckets.
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
