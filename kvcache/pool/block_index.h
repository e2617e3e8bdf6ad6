// A hash table that maps block keys to block ids. Allocates memory only at construction.
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
// the caller must compare the whole digest. If a bucket (10 slots in one cache line) is full, the
// next bucket with a free slot stores the entry.
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

  // Returns the block that Find(prefix) probably returns, so that the caller can prefetch its
  // metadata. Find() may find a block even if Guess() returns kNoBlock.
  BlockId Guess(uint64_t prefix) const {
    const Bucket& bucket = buckets_[Home(prefix)];
    const uint32_t like = bucket.SlotsLike(Tag(prefix));
    return like == 0 ? kNoBlock : bucket.blocks[static_cast<size_t>(std::countr_zero(like))];
  }
  // Prefetches the bucket of `prefix`. Without always_inline, gcc would remove all calls of this
  // function.
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
    // Number of entries that a later bucket stores because this bucket was full. Once the number is
    // kPassedMax, the number stays kPassedMax.
    uint16_t num_passed = 0;
    std::array<BlockId, kSlots> blocks{};

    // Returns a bit mask: bit i is 1 if slot i has an entry with the tag `tag`. The tag of an entry
    // is the highest 16 bits of BlockHash::prefix().
    uint32_t SlotsLike(uint16_t tag) const {
#ifdef __SSE2__
      // The SSE2 instructions compare 16 numbers of 16 bits: the 10 tags, and the 6 numbers that
      // follow in memory. `used` removes the results of these 6 numbers.
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
  // Returns the index of the bucket of `prefix`, computed without a division.
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
