// Declares Clock, a source of monotonic time, and UnixTime, the time of the calendar. Timeouts use
// monotonic time, so a change of the system's date and time does not affect timeouts. Tests
// implement Clock with a time that they set.
#pragma once

#include <chrono>
#include <cstdint>

namespace incipit {

using Time = std::chrono::steady_clock::time_point;
using Duration = std::chrono::steady_clock::duration;

inline constexpr Time kNoDeadline = Time::max();

inline double ToSeconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}
inline Duration FromSeconds(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

// Returns the time since 1970-01-01 UTC. The time may jump if the date of the system is set. Only
// the files in UNIX_TIME (tools/tidy.py) may call UnixTime and UnixSeconds.
inline std::chrono::nanoseconds UnixTime() {
  return std::chrono::system_clock::now().time_since_epoch();
}
inline int64_t UnixSeconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(UnixTime()).count();
}

// A source of the current time. Several threads may call Now() at the same time.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Time Now() const = 0;
};

class SteadyClock final : public Clock {
 public:
  Time Now() const override { return std::chrono::steady_clock::now(); }
};

}  // namespace incipit
