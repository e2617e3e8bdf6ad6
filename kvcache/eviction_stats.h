// What was given up, why, and how old it was.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace incipit {

enum class EvictionReason : uint8_t {
  kCapacity,  // the eviction policy's choice
  kPriority,  // its priority was below the default
  kTimeToLive,
  kReset,
};
inline constexpr size_t kNumEvictionReasons = 4;

// Upper bounds, in seconds, of the buckets of ages; what is older falls into one more.
inline constexpr std::array<double, 12> kAgeBounds = {0.1, 0.5,  1,    5,     15,    60,
                                                      300, 1800, 7200, 21600, 86400, 604800};

struct AgeHistogram {
  std::array<int64_t, kAgeBounds.size() + 1> counts{};
  double sum_seconds = 0;

  void Add(double seconds) {
    size_t bucket = 0;
    while (bucket < kAgeBounds.size() && seconds > kAgeBounds[bucket]) ++bucket;
    ++counts[bucket];
    sum_seconds += seconds;
  }
  AgeHistogram& operator+=(const AgeHistogram& other) {
    for (size_t i = 0; i < counts.size(); ++i) counts[i] += other.counts[i];
    sum_seconds += other.sum_seconds;
    return *this;
  }
};

// Of published blocks that can no longer be found, because they were given to somebody else or
// forgotten.
struct EvictionStats {
  std::array<int64_t, kNumEvictionReasons> by_reason{};
  AgeHistogram age;   // since it was published
  AgeHistogram idle;  // since its last user left

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
