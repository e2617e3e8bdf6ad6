// Declares a class with which the main thread waits for stop signals and wake-ups in one call.
#pragma once

#include <optional>

#include "base/clock.h"

namespace incipit {

// Receives stop signals. The constructor blocks SIGTERM, SIGINT, SIGQUIT and SIGHUP in the calling
// thread and in threads started later; only Wait() receives these signals. SIGHUP stays ignored if
// the process was started with SIGHUP ignored. SIGUSR1 and SIGUSR2 are ignored. Only one thread may
// call Wait(); any thread may call Wake().
class StopSignals {
 public:
  enum class Event { kSignal, kWake, kTimeout };

  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // Waits until a stop signal arrives, Wake() is called, or the time `deadline` is reached. If a
  // signal and a wake-up are both pending, returns the signal first.
  Event Wait(std::optional<Time> deadline);
  void Wake();

 private:
  int signal_fd_ = -1, wake_fd_ = -1;
};

// Starts a thread that ends the process with `exit_code` at the next stop signal, or after the time
// `longest` at the latest. A device that hangs therefore cannot keep the process alive. REQUIRES:
// no other thread waits for `signals`, and `signals` is never destroyed.
void ExitOnSignalOrAfter(StopSignals& signals, Duration longest, int exit_code);

}  // namespace incipit
