// A bounded memory of the keys that were evicted last. The memory distinguishes a miss of an
// evicted key from a miss of a key that was never cached.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/table.h"

namespace incipit {

// Remembers the last num_remembered() evictions, with 32 bits of each key. About one query in 500
// million finds the entry of another key.
//
// The entries are in sets of seven entries, and a set fills one cache line. A new entry overwrites
// the oldest entry of its set, so a few percent of the keys are forgotten early.
class EvictedKeys {
 public:
  explicit EvictedKeys(int32_t num_blocks);

  void Add(uint64_t prefix, uint32_t time);
  // Returns the time of the eviction of the key with the prefix `prefix`, if the eviction is
  // remembered.
  std::optional<uint32_t> Find(uint64_t prefix) const;
  // Forgets the eviction of the key with the prefix `prefix`. Returns false if the eviction was not
  // remembered.
  bool Take(uint64_t prefix);
  // Prefetches the memory that Add, Find and Take access for `prefix`. Without always_inline, gcc
  // treats this function as a function without effect and removes its calls.
  [[gnu::always_inline]] void Prefetch(uint64_t prefix) const {
    __builtin_prefetch(&sets_[SetOf(prefix)], 1);
  }

  int32_t num_remembered() const { return num_remembered_; }
  size_t num_bytes() const { return sets_.capacity() * sizeof(Set) + sizeof(times_); }

 private:
  static constexpr size_t kWays = 7;
  static constexpr size_t kNumTimes = 256;

  struct alignas(64) Set {
    std::array<uint32_t, kWays> tags{};
    uint32_t next = 0;  // index of the entry of this set that the next eviction overwrites
    // Element i is the number of the eviction in entry i, counted from 1. 0: the entry is empty.
    std::array<uint32_t, kWays> numbers{};
  };
  static_assert(sizeof(Set) == 64);

  size_t SetOf(uint64_t prefix) const {
    return static_cast<size_t>((prefix >> 32) * sets_.size() >> 32);
  }
  bool IsRecent(uint32_t number) const {
    return number != 0 && num_evicted_ - number < static_cast<uint32_t>(num_remembered_);
  }
  size_t TimeSlot(uint32_t number) const { return (number >> per_time_log2_) % kNumTimes; }
  // Returns the index of the entry for `prefix` in its set, or kWays if `prefix` is not remembered.
  size_t WayOf(uint64_t prefix) const;

  int32_t num_remembered_ = 0;
  Table<Set> sets_;
  // Number of evictions. After 2^32 evictions, the number wraps, and an old entry may seem recent.
  uint32_t num_evicted_ = 0;
  // Ring buffer of times: one time for each group of 2^per_time_log2_ consecutive evictions.
  std::array<uint32_t, kNumTimes> times_{};
  int per_time_log2_ = 0;
};

}  // namespace incipit
