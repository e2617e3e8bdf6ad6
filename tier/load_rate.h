// LoadRate: predicts the time of loads from the measured time of earlier loads.
#pragma once

#include <algorithm>
#include <cstddef>

#include "base/clock.h"

namespace incipit {

class LoadRate {
 public:
  // `initial` is the time per chunk before the first measurement.
  explicit LoadRate(Duration initial) : per_chunk_(initial) {}

  // Adds the measurement of a load that was submitted at `submitted` and has ended at `ended`. If
  // loads overlap, only the time since the end of the previous load counts.
  void Add(Time submitted, Time ended) {
    const Duration busy = std::max(Duration::zero(), ended - std::max(submitted, last_end_));
    last_end_ = std::max(last_end_, ended);
    per_chunk_ += (busy - per_chunk_) / kMemory;
  }
  // Returns the predicted time to load `num_chunks` chunks. `num_chunks` must include the chunks
  // that wait in the queue.
  Duration Predict(size_t num_chunks) const {
    return per_chunk_ * static_cast<Duration::rep>(num_chunks);
  }

 private:
  static constexpr int kMemory = 16;  // number of loads over which the time is averaged
  Duration per_chunk_;
  Time last_end_{};
};

}  // namespace incipit
