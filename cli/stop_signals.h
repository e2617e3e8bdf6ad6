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

// From now on ends the process with `exit_code` on the next signal, and at the latest after
// `longest`, on a thread of its own: a device that hangs must not keep the process alive. Nothing
// else may wait for `signals`, which outlive the process's end.
void ExitOnSignalOrAfter(StopSignals& signals, Duration longest, int exit_code);

}  // namespace incipit
