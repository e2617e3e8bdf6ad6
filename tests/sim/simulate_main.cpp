// simulate [FIRST_SEED [COUNT]]: simulates COUNT seeds from FIRST_SEED on. The exit status is 0 if
// no simulation finds an error, and 1 otherwise.
#include <sys/time.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/sim/simulation.h"

namespace {

// Maximum CPU time of one seed, in seconds. Most seeds take about a millisecond. A seed that takes
// longer than the maximum is in an endless loop.
constexpr int kSeedSecondsMax = 5;

// Line that OnTimeLimit() prints for the current seed.
char hang_message[96];
size_t hang_message_size;

// Ends the program. The functions that OnTimeLimit() calls may be called in a signal handler.
void OnTimeLimit(int) {
  [[maybe_unused]] const ssize_t written = write(STDOUT_FILENO, hang_message, hang_message_size);
  _exit(1);
}

// Gives `seed` kSeedSecondsMax of CPU time from now on.
void RestartTimeLimit(uint64_t seed) {
  constexpr itimerval kLimit = {.it_interval = {},
                                .it_value = {.tv_sec = kSeedSecondsMax, .tv_usec = 0}};
  setitimer(ITIMER_VIRTUAL, &kLimit, nullptr);
  hang_message_size = static_cast<size_t>(
      std::snprintf(hang_message, sizeof(hang_message),
                    "seed %lu: takes more than %d s of CPU time\n", seed, kSeedSecondsMax));
}

}  // namespace

int main(int argc, char** argv) {
  const uint64_t first = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1;
  const uint64_t count = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 2000;
  std::signal(SIGVTALRM, OnTimeLimit);
  incipit::SimulationCounts counts;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    RestartTimeLimit(seed);
    const std::string error = incipit::Simulate(seed, counts);
    if (error.empty()) continue;
    std::printf("seed %lu: %s\n", seed, error.c_str());
    return 1;
  }
  std::printf("%lu seeds: %s\n", count, counts.ToString().c_str());
  return 0;
}
