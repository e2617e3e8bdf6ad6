// WriteBudget: limits the number of bytes that a tier writes per second.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"

namespace incipit {

class WriteBudget {
 public:
  // If `bytes_per_second` is 0, there is no limit. While nothing is written, the budget grows to at
  // most `burst_bytes` bytes.
  WriteBudget(uint64_t bytes_per_second, uint64_t burst_bytes)
      : rate_(static_cast<double>(bytes_per_second)),
        burst_(static_cast<double>(burst_bytes)),
        available_(burst_) {}

  // Takes `num_bytes` from the budget. Returns false and takes nothing if `num_bytes` exceeds the
  // budget at the time `now`.
  bool Take(uint64_t num_bytes, Time now) {
    if (rate_ == 0) return true;
    available_ = AvailableAt(now);
    updated_ = now;
    const auto wanted = static_cast<double>(num_bytes);
    if (wanted > available_) return false;
    available_ -= wanted;
    return true;
  }
  // Returns true if Take with the same arguments would return true.
  bool HasRoom(uint64_t num_bytes, Time now) const {
    return rate_ == 0 || static_cast<double>(num_bytes) <= AvailableAt(now);
  }

 private:
  double AvailableAt(Time now) const {
    if (updated_ == Time()) return available_;
    return std::min(burst_, available_ + rate_ * ToSeconds(now - updated_));
  }

  const double rate_, burst_;
  double available_;
  Time updated_{};
};

}  // namespace incipit
