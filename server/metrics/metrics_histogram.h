// A histogram to which many threads can add values without a lock. The histogram of the library
// prometheus-cpp is not used, because that histogram locks a mutex for each value.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <vector>

#include "base/check.h"
#include "engine/engine.h"

namespace incipit {

// Bucket bounds of latencies, in seconds.
inline constexpr std::array kLatencyBounds = {
    0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1,   0.15,  0.2,
    0.3,   0.5,   0.75,  1.0,   2.0,    3.0,  5.0,   10.0, 20.0, 30.0, 60.0,  120.0, 300.0, 600.0};
// Upper bounds, in seconds, of the buckets of the histogram of the durations of steps (batches).
inline constexpr std::array kStepBounds = {0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02,
                                           0.05,   0.1,    0.2,    0.5,   1.0,   2.0,   5.0,  10.0};
// Upper bounds, in seconds, of the buckets of two histograms of evicted cache blocks: the time
// since a block was stored, and the time since its last use.
inline constexpr auto kAgeBounds = [] {
  std::array<double, kNumAgeBounds> bounds{};
  for (size_t i = 0; i < bounds.size(); ++i) bounds[i] = AgeBoundSeconds(i);
  return bounds;
}();

// Counts values in buckets. Each bucket has an upper bound. One more bucket counts the values above
// the last bound.
class MetricsHistogram {
 public:
  struct Snapshot {
    std::span<const double> bounds;  // upper bounds of the buckets, in ascending order
    // Array of bounds.size() + 1 counts. For i < bounds.size(), element i is the number of values
    // that are at most bounds[i]. The last element is the number of all values.
    std::vector<uint64_t> cumulative;
    double sum = 0;
  };

  // Creates a histogram whose buckets have the bounds `bounds` and `more_bounds`. Both lists are in
  // ascending order, and may have bounds in common.
  explicit MetricsHistogram(std::span<const double> bounds,
                            std::span<const double> more_bounds = {}) {
    std::ranges::set_union(bounds, more_bounds, std::back_inserter(bounds_));
    counts_ = std::vector<std::atomic<uint64_t>>(bounds_.size() + 1);
  }

  // Counts `value`, `times` times.
  void Observe(double value, int64_t times = 1) {
    const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
    counts_[static_cast<size_t>(bucket)].fetch_add(static_cast<uint64_t>(times),
                                                   std::memory_order_relaxed);
    sum_.fetch_add(value * static_cast<double>(times), std::memory_order_relaxed);
  }

  // Adds values that another histogram with the same bounds has counted. `counts` has the number of
  // values in each bucket, and `sum` is the sum of the values. REQUIRES: `counts` has bounds.size()
  // + 1 elements.
  void Add(std::span<const int64_t> counts, double sum) {
    for (size_t i = 0; i < counts.size(); ++i) {
      counts_[i].fetch_add(static_cast<uint64_t>(counts[i]), std::memory_order_relaxed);
    }
    sum_.fetch_add(sum, std::memory_order_relaxed);
  }

  // Returns the current counts of all buckets. If other threads add values during the call, the
  // returned total is still the sum of the returned bucket counts.
  Snapshot Read() const { return Read(bounds_); }
  // Returns the counts that the histogram would have if its buckets had only the bounds `bounds`.
  // REQUIRES: `bounds` is in ascending order, contains only bounds of the histogram, and outlives
  // the returned value.
  Snapshot Read(std::span<const double> bounds) const {
    Snapshot snapshot{bounds, {}, sum_.load(std::memory_order_relaxed)};
    uint64_t total = 0;
    for (size_t i = 0; i < counts_.size(); ++i) {
      total += counts_[i].load(std::memory_order_relaxed);
      const size_t num_read = snapshot.cumulative.size();
      if (i == bounds_.size() || (num_read < bounds.size() && bounds_[i] == bounds[num_read])) {
        snapshot.cumulative.push_back(total);
      }
    }
    INCIPIT_CHECK(snapshot.cumulative.size() == bounds.size() + 1);
    return snapshot;
  }

 private:
  std::vector<double> bounds_;
  std::vector<std::atomic<uint64_t>> counts_;
  std::atomic<double> sum_ = 0;
};

}  // namespace incipit
