// A bounded memory of the keys that were evicted last: what tells a miss that could have been a hit
// from one that could not.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/table.h"

namespace incipit {

// Remembers the last num_remembered() evictions, each by 32 bits of its key, in sets of eight that
// fill a cache line each; in a set that is full the oldest goes. So a query touches one line, a
// percent or two of the keys is forgotten early, and one query in a billion is answered for another
// key.
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
    __builtin_prefetch(&sets_[SetOf(prefix)]);
  }

  int32_t num_remembered() const { return num_remembered_; }
  size_t num_bytes() const { return sets_.capacity() * sizeof(Set) + sizeof(times_); }

 private:
  static constexpr size_t kWays = 8;
  static constexpr size_t kNumTimes = 256;

  struct Entry {
    uint32_t tag = 0;
    uint32_t number = 0;  // of the eviction, from 1; 0: none
  };
  struct alignas(64) Set {
    std::array<Entry, kWays> entries;
  };

  size_t SetOf(uint64_t prefix) const {
    return static_cast<size_t>((prefix >> 32) * sets_.size() >> 32);
  }
  bool IsRecent(const Entry& entry) const {
    return entry.number != 0 &&
           num_evicted_ - entry.number < static_cast<uint32_t>(num_remembered_);
  }

  int32_t num_remembered_ = 0;
  Table<Set> sets_;
  uint32_t num_evicted_ = 0;  // wraps; a stale entry of 2^32 evictions ago may look recent
  // The time of every so many evictions, from which that of any one follows nearly.
  std::array<uint32_t, kNumTimes> times_{};
  uint32_t per_time_ = 1;
};

}  // namespace incipit
