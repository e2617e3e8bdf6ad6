// A bounded set of the keys that were evicted last. Distinguishes a miss of an evicted key from a
// miss of a key that was never cached.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/table.h"

namespace incipit {

// Remembers the keys of the latest num_remembered() evictions, with 32 bits for each key. A few
// percent of these keys are overwritten too early. About one lookup in 500 million finds the entry
// of another key.
class EvictedKeys {
 public:
  explicit EvictedKeys(int32_t num_blocks);

  void Add(uint64_t prefix, uint32_t time);
  // Returns the time at which the key with the first 64 bits `prefix` was evicted, or nullopt if
  // the key is not stored.
  std::optional<uint32_t> Find(uint64_t prefix) const;
  // Removes the key with the first 64 bits `prefix`. Returns false if the key is not stored.
  bool Take(uint64_t prefix);
  // Prefetches the memory of `prefix` for Add(), Find() and Take(). Without always_inline, gcc
  // would remove all calls of this function.
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
    uint32_t next = 0;  // index of the entry that is overwritten next
    // Element i: sequence number (1, 2, ...) of the eviction that wrote entry i; 0: the entry is
    // empty.
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
  // Returns the index of the entry for `prefix` in its set of kWays entries, or kWays if `prefix`
  // is not stored.
  size_t WayOf(uint64_t prefix) const;

  int32_t num_remembered_ = 0;
  Table<Set> sets_;
  // Number of all evictions, which wraps after 2^32 evictions.
  uint32_t num_evicted_ = 0;
  // Ring buffer of eviction times. Each group of 2^per_time_log2_ consecutive evictions shares one
  // element: the time of the last eviction in the group.
  std::array<uint32_t, kNumTimes> times_{};
  int per_time_log2_ = 0;
};

}  // namespace incipit
