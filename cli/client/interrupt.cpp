#include "cli/client/interrupt.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <utility>

#include "base/check.h"

namespace incipit {
namespace {

// Value that the signal handler writes to the eventfd `event_fd`. The thread of the Interrupt then
// calls `stop`.
constexpr uint64_t kStop = 1;
// Value that the destructor of Interrupt writes to the eventfd `event_fd`. The thread of the
// Interrupt then ends.
constexpr uint64_t kEnd = uint64_t{1} << 32;
std::atomic<int> event_fd = -1;
struct sigaction previous_action;

void Send(uint64_t what) {
  // The kernel adds up all values that are written to an eventfd. One read may therefore return a
  // sum of kStop and kEnd.
  [[maybe_unused]] const ssize_t written = write(event_fd.load(), &what, sizeof what);
}

void OnSignal(int) { Send(kStop); }

}  // namespace

Interrupt::Interrupt(std::function<void()> stop) {
  if (event_fd.load() < 0) event_fd = eventfd(0, EFD_CLOEXEC);
  INCIPIT_CHECK(event_fd.load() >= 0);
  thread_ = std::thread([stop = std::move(stop)] {
    for (uint64_t what = 0; what < kEnd;) {
      if (read(event_fd.load(), &what, sizeof what) != sizeof what) continue;
      if (what % kEnd != 0) stop();
    }
  });
  struct sigaction action {};
  action.sa_handler = &OnSignal;
  action.sa_flags = SA_RESTART;
  INCIPIT_CHECK(sigaction(SIGINT, &action, &previous_action) == 0);
}

Interrupt::~Interrupt() {
  INCIPIT_CHECK(sigaction(SIGINT, &previous_action, nullptr) == 0);
  Send(kEnd);
  thread_.join();
}

}  // namespace incipit
