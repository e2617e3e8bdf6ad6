// Declares a class that lets the main thread wait for a stop signal, a wake-up by another thread,
// or a deadline.
#pragma once

#include <optional>

#include "base/clock.h"

namespace incipit {

// Receives the stop signals SIGTERM, SIGINT, SIGQUIT and SIGHUP. The constructor blocks these
// signals in the calling thread and in all threads started later, so only Wait() receives them. If
// SIGHUP was ignored when the process started (as by nohup), SIGHUP stays ignored.
class StopSignals {
 public:
  enum class Event { kSignal, kWake, kTimeout };

  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // Waits until a stop signal arrives, Wake() is called by any thread, or the time `deadline` is
  // reached. If both a signal and a wake-up are pending, returns kSignal. REQUIRES: no other thread
  // calls Wait().
  Event Wait(std::optional<Time> deadline);
  void Wake();

 private:
  int signal_fd_ = -1, wake_fd_ = -1;
};

// Starts a thread that ends the process with `exit_code` at the next stop signal, or after the
// duration `longest`, even if the device hangs. REQUIRES: no other thread waits for `signals`, and
// `signals` is never destroyed.
void ExitOnSignalOrAfter(StopSignals& signals, Duration longest, int exit_code);

}  // namespace incipit
