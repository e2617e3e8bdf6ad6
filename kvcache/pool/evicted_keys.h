// A bounded memory of the keys that were evicted last: what tells a miss that could have been a hit
// from one that could not.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/table.h"

namespace incipit {

// Remembers the last num_remembered() evictions, each by 32 bits of its key, in sets of seven that
// fill a cache line each and are written in turn. So an eviction and a query touch one line each, a
// few percent of the keys are forgotten early, and one query in half a billion is answered for
// another key.
class EvictedKeys {
 public:
  explicit EvictedKeys(int32_t num_blocks);

  void Add(uint64_t prefix, uint32_t time);
  // When it was evicted, if that is remembered. Time is the caller's.
  std::optional<uint32_t> Find(uint64_t prefix) const;
  // Forgets `prefix`; true if it was remembered.
  bool Take(uint64_t prefix);
  // Always inlined, or gcc takes it for a function without effect and drops its calls.
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
    uint32_t next = 0;                      // the way that is written next
    std::array<uint32_t, kWays> numbers{};  // of the evictions, from 1; 0: none
  };
  static_assert(sizeof(Set) == 64);

  size_t SetOf(uint64_t prefix) const {
    return static_cast<size_t>((prefix >> 32) * sets_.size() >> 32);
  }
  bool IsRecent(uint32_t number) const {
    return number != 0 && num_evicted_ - number < static_cast<uint32_t>(num_remembered_);
  }
  size_t TimeSlot(uint32_t number) const { return (number >> per_time_log2_) % kNumTimes; }
  // Where in its set `prefix` stands; kWays if it is not remembered.
  size_t WayOf(uint64_t prefix) const;

  int32_t num_remembered_ = 0;
  Table<Set> sets_;
  uint32_t num_evicted_ = 0;  // wraps; a stale entry of 2^32 evictions ago may look recent
  // The time of every so many evictions, from which that of any one follows nearly.
  std::array<uint32_t, kNumTimes> times_{};
  int per_time_log2_ = 0;
};

}  // namespace incipit
