#include "server/watchdog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace incipit {
namespace {

using ::testing::ElementsAre;

class WatchdogTest : public ::testing::Test {
 protected:
  Watchdog::Hooks Hooks() {
    Watchdog::Hooks hooks;
    hooks.heartbeat = [this] { return beat_; };
    hooks.step_longest = [this] { return step_longest_; };
    hooks.on_change = [this](bool goes_on) { changes_.push_back(goes_on); };
    hooks.on_stuck = [this] { ++num_stuck_; };
    return hooks;
  }
  void Look(Watchdog& watchdog, int seconds) {
    for (int i = 0; i < seconds; ++i) watchdog.Look(std::chrono::seconds(1));
  }

  Time beat_{};
  Duration step_longest_ = std::chrono::milliseconds(500);
  std::vector<bool> changes_;
  int num_stuck_ = 0;
};

TEST_F(WatchdogTest, NoticesAnEngineThatHangsAndOneThatGoesOn) {
  Watchdog watchdog(Hooks());
  Look(watchdog, 11);
  // The longest step takes 0.5 s. The time limit is 20 times as long: 10 s.
  EXPECT_TRUE(changes_.empty());
  Look(watchdog, 1);
  EXPECT_EQ(changes_, std::vector<bool>{false});
  beat_ += std::chrono::seconds(1);
  Look(watchdog, 1);
  EXPECT_EQ(changes_, (std::vector<bool>{false, true}));
  EXPECT_EQ(num_stuck_, 0);
}

TEST_F(WatchdogTest, AllowsFiveSecondsAtLeastAndAsksForARestartOnceThirtyLater) {
  step_longest_ = std::chrono::milliseconds(1);
  Watchdog watchdog(Hooks());
  Look(watchdog, 6);
  EXPECT_TRUE(changes_.empty());
  Look(watchdog, 1);
  EXPECT_EQ(changes_.size(), 1u);
  Look(watchdog, 29);
  EXPECT_EQ(num_stuck_, 0);
  Look(watchdog, 20);
  EXPECT_EQ(num_stuck_, 1);
}

TEST_F(WatchdogTest, TakesAProcessThatWasStoppedForNoHang) {
  Watchdog watchdog(Hooks());
  Look(watchdog, 1);
  watchdog.Look(std::chrono::hours(1));
  Look(watchdog, 1);
  EXPECT_TRUE(changes_.empty());
}

}  // namespace
}  // namespace incipit
