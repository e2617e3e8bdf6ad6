#include "cli/stop_signals.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

namespace incipit {
namespace {

constexpr int kCode = 7;

// Imitates a thread that waits for a device for ever.
[[noreturn]] void Hang() {
  while (true) pause();
}

TEST(StopSignalsDeathTest, AProcessThatCannotStopEndsAfterTheLongestTime) {
  EXPECT_EXIT(
      {
        StopSignals signals;
        ExitOnSignalOrAfter(signals, std::chrono::milliseconds(20), kCode);
        Hang();
      },
      ::testing::ExitedWithCode(kCode), "");
}

TEST(StopSignalsDeathTest, ASignalEndsAProcessThatStopsAtOnce) {
  EXPECT_EXIT(
      {
        StopSignals signals;
        ExitOnSignalOrAfter(signals, std::chrono::hours(1), kCode);
        kill(getpid(), SIGTERM);
        Hang();
      },
      ::testing::ExitedWithCode(kCode), "");
}

TEST(StopSignalsDeathTest, AWakeDoesNotEndTheProcess) {
  EXPECT_EXIT(
      {
        StopSignals signals;
        signals.Wake();
        ExitOnSignalOrAfter(signals, std::chrono::hours(1), kCode);
        signals.Wake();
        kill(getpid(), SIGTERM);
        Hang();
      },
      ::testing::ExitedWithCode(kCode), "");
}

}  // namespace
}  // namespace incipit
