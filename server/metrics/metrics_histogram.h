// A histogram that many threads can fill without a lock. The histogram of the metrics library locks
// a mutex for each value.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/engine.h"

namespace incipit {

// Bucket bounds of latencies, in seconds.
inline constexpr std::array kLatencyBounds = {
    0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1,   0.15,  0.2,
    0.3,   0.5,   0.75,  1.0,   2.0,    3.0,  5.0,   10.0, 20.0, 30.0, 60.0,  120.0, 300.0, 600.0};
// Bucket bounds of step times, in seconds.
inline constexpr std::array kStepBounds = {0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02,
                                           0.05,   0.1,    0.2,    0.5,   1.0,   2.0,   5.0,  10.0};
// Bucket bounds of ages at eviction, in seconds.
inline constexpr auto kAgeBounds = [] {
  std::array<double, kNumAgeBounds> bounds{};
  for (size_t i = 0; i < bounds.size(); ++i) bounds[i] = AgeBoundSeconds(i);
  return bounds;
}();

// Counts values in buckets. `bounds` are the upper bounds of the buckets, in ascending order, and
// must outlive the histogram. Values above the last bound are counted in an extra bucket.
class MetricsHistogram {
 public:
  struct Snapshot {
    std::span<const double> bounds;
    // [bounds.size() + 1]. Element i < bounds.size() is the number of values up to bounds[i]. The
    // last element is the number of all values.
    std::vector<uint64_t> cumulative;
    double sum = 0;
  };

  explicit MetricsHistogram(std::span<const double> bounds)
      : bounds_(bounds), counts_(bounds.size() + 1) {}

  // Counts `value`, `times` times.
  void Observe(double value, int64_t times = 1) {
    const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
    counts_[static_cast<size_t>(bucket)].fetch_add(static_cast<uint64_t>(times),
                                                   std::memory_order_relaxed);
    sum_.fetch_add(value * static_cast<double>(times), std::memory_order_relaxed);
  }

  // Adds counts from another histogram with the same bounds, and the sum of its values.
  // REQUIRES: `counts` has bounds.size() + 1 elements.
  void Add(std::span<const int64_t> counts, double sum) {
    for (size_t i = 0; i < counts.size(); ++i) {
      counts_[i].fetch_add(static_cast<uint64_t>(counts[i]), std::memory_order_relaxed);
    }
    sum_.fetch_add(sum, std::memory_order_relaxed);
  }

  // Returns the current counts. The total count is the sum of the bucket counts that were read, so
  // the total and the buckets are always consistent.
  Snapshot Read() const {
    Snapshot snapshot{bounds_, {}, sum_.load(std::memory_order_relaxed)};
    uint64_t total = 0;
    for (const auto& count : counts_) {
      total += count.load(std::memory_order_relaxed);
      snapshot.cumulative.push_back(total);
    }
    return snapshot;
  }

 private:
  std::span<const double> bounds_;
  std::vector<std::atomic<uint64_t>> counts_;
  std::atomic<double> sum_ = 0;
};

}  // namespace incipit
