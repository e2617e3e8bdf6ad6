// The signals that stop the server, and whatever else wakes its main thread, as one wait.
#pragma once

#include <optional>

#include "base/clock.h"

namespace incipit {

// SIGTERM, SIGINT, SIGQUIT and SIGHUP are blocked from its construction on, in this thread and in
// those started later, and arrive at Wait only. A SIGHUP that the process was started to ignore
// stays ignored. SIGUSR1 and SIGUSR2 are ignored. One thread waits; Wake is for every thread.
class StopSignals {
 public:
  enum class Event { kSignal, kWake, kTimeout };

  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // A signal comes before a wake that came with it.
  Event Wait(std::optional<Time> deadline);
  void Wake();

 private:
  int signal_fd_ = -1, wake_fd_ = -1;
};

}  // namespace incipit
