// A clock that only the test advances.
#pragma once

#include <atomic>

#include "base/clock.h"

namespace incipit {

class ManualClock final : public Clock {
 public:
  Time Now() const override { return Time(Duration(now_.load())); }
  void Advance(Duration duration) { now_ += duration.count(); }

 private:
  std::atomic<Duration::rep> now_ = Duration(std::chrono::seconds(1000)).count();
};

}  // namespace incipit
