#include "cli/stop_signals.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <thread>

#include "base/check.h"

namespace incipit {
namespace {

// Returns the time until `deadline` as a timeout for poll(), in milliseconds, rounded up. Returns
// -1 (no timeout) if `deadline` is empty.
int MillisecondsUntil(std::optional<Time> deadline) {
  if (!deadline) return -1;
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(*deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1 << 30));
}

// Reads one value of type T from the file descriptor `fd`. Returns false if no value is available.
template <typename T>
bool Take(int fd) {
  T value;
  return read(fd, &value, sizeof(value)) == sizeof(value);
}

// Returns true if `signal` was already ignored when the process started. For example, nohup starts
// a program with SIGHUP ignored.
bool IsIgnored(int signal) {
  struct sigaction action {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

StopSignals::StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGQUIT, SIGHUP}) {
    if (signal == SIGHUP && IsIgnored(signal)) continue;
    sigaddset(&signals, signal);
  }
  for (const int signal : {SIGUSR1, SIGUSR2}) {
    INCIPIT_CHECK(std::signal(signal, SIG_IGN) != SIG_ERR);
  }
  INCIPIT_CHECK(pthread_sigmask(SIG_BLOCK, &signals, nullptr) == 0);
  signal_fd_ = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  INCIPIT_CHECK(signal_fd_ >= 0 && wake_fd_ >= 0);
}

StopSignals::~StopSignals() {
  close(signal_fd_);
  close(wake_fd_);
}

StopSignals::Event StopSignals::Wait(std::optional<Time> deadline) {
  pollfd fds[] = {{signal_fd_, POLLIN, 0}, {wake_fd_, POLLIN, 0}};
  while (true) {
    const int timeout = MillisecondsUntil(deadline);
    const int num_ready = poll(fds, 2, timeout);
    if (num_ready < 0) {
      INCIPIT_CHECK(errno == EINTR);
      continue;
    }
    if (Take<signalfd_siginfo>(signal_fd_)) return Event::kSignal;
    if (Take<uint64_t>(wake_fd_)) return Event::kWake;
    if (num_ready == 0 && MillisecondsUntil(deadline) == 0) return Event::kTimeout;
  }
}

void StopSignals::Wake() {
  const uint64_t one = 1;
  // The write can fail only if the counter of the eventfd is full. A previous wake-up is then still
  // pending, and a second wake-up is not necessary.
  [[maybe_unused]] const ssize_t written = write(wake_fd_, &one, sizeof(one));
}

void ExitOnSignalOrAfter(StopSignals& signals, Duration longest, int exit_code) {
  const Time deadline = std::chrono::steady_clock::now() + longest;
  std::thread([&signals, deadline, exit_code] {
    while (signals.Wait(deadline) == StopSignals::Event::kWake) {
    }
    _exit(exit_code);
  }).detach();
}

}  // namespace incipit
