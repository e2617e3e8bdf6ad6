// Statistics of evicted cache blocks: their number by reason of eviction, and histograms of the
// time that the blocks were cached.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace incipit {

enum class EvictionReason : uint8_t {
  kCapacity,  // the cache was full, and the eviction policy chose the block
  kPriority,  // the block had a retention priority below the default
  kTimeToLive,
  kReset,
};
inline constexpr size_t kNumEvictionReasons = 4;

// Number of buckets with an upper bound in an AgeHistogram. The bounds are 64 ms, 256 ms, 1 s and
// so on, up to 3 days. One more bucket counts longer times.
inline constexpr size_t kNumAgeBounds = 12;
constexpr double AgeBoundSeconds(size_t bucket) {
  return static_cast<double>(uint64_t{64} << 2 * bucket) * 1e-3;
}

struct AgeHistogram {
  std::array<int64_t, kNumAgeBounds + 1> counts{};
  int64_t sum_ms = 0;

  void Add(uint32_t ms) {
    const auto num_bits = static_cast<size_t>(std::bit_width(ms > 64 ? (ms - 1) >> 6 : 0u));
    ++counts[std::min((num_bits + 1) / 2, kNumAgeBounds)];
    sum_ms += ms;
  }
  AgeHistogram& operator+=(const AgeHistogram& other) {
    for (size_t i = 0; i < counts.size(); ++i) counts[i] += other.counts[i];
    sum_ms += other.sum_ms;
    return *this;
  }
};

// Statistics of blocks that were removed from the cache: evicted, expired or reset.
struct EvictionStats {
  std::array<int64_t, kNumEvictionReasons> by_reason{};
  // Histogram of the time between publication (lookups can find a block) and eviction.
  AgeHistogram age;
  AgeHistogram idle;  // histogram of the time for which a block had no users before its eviction

  int64_t total() const {
    int64_t sum = 0;
    for (const int64_t count : by_reason) sum += count;
    return sum;
  }
  EvictionStats& operator+=(const EvictionStats& other) {
    for (size_t i = 0; i < by_reason.size(); ++i) by_reason[i] += other.by_reason[i];
    age += other.age;
    idle += other.idle;
    return *this;
  }
};

}  // namespace incipit
