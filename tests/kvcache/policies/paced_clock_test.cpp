#include "kvcache/policies/paced_clock.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>

#include "kvcache/policies/touch_clock.h"

namespace incipit {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr uint32_t kUnit = 4, kEpoch = 64;
constexpr uint64_t kStart = uint64_t{1} << 40;
// Number of block uses after which the clock has fixed its unit of age: the mean time between two
// block uses.
constexpr int kSettled = 257 * kEpoch;

// Two clocks that advance together, as in the eviction policy: `touches` counts block uses, and
// `paced` measures the ages of blocks.
class Clocks {
 public:
  void Pass(Duration time, uint64_t num_touches = 1) {
    paced.PassUntil(now += time);
    paced.Advance(num_touches);
    touches.Advance(num_touches);
  }
  void PassEvenly(Duration time, int num_touches) {
    for (int i = 0; i < num_touches; ++i) Pass(time);
  }
  // Returns the age of a block that was last used at `begin`, a value of PacedClock::now().
  double Since(double begin) const { return paced.now() - begin; }

  TouchClock touches{kStart, kUnit, kEpoch};
  PacedClock paced{touches};
  Time now;
};

TEST(PacedClock, AgesAreTouchesWhereNoTimeIsReported) {
  TouchClock touches(kStart, kUnit, kEpoch);
  PacedClock paced(touches);
  const TouchClock::Stamp first = touches.stamp();
  for (int i = 0; i < 2 * kSettled; ++i) {
    EXPECT_EQ(paced.AgeClassOf(first), touches.AgeClassOf(first));
    EXPECT_EQ(paced.now(), i);
    paced.Advance(1);
    touches.Advance(1);
  }
  EXPECT_EQ(paced.AgeOfEpoch(0), 0);
  EXPECT_EQ(paced.AgeOfEpoch(1), 0.5 * kEpoch);
  EXPECT_EQ(paced.AgeOfEpoch(100), 99.5 * kEpoch);
}

// Returns the age that the paced clock adds per block use after the clock has fixed its unit. The
// block uses follow at intervals of `apart`. The result is 1, or more if the clock still adds time
// from before it fixed its unit.
double AgeOfTouch(Clocks& clocks, Duration apart) {
  clocks.PassEvenly(apart, kSettled + 1000 * kEpoch);
  const double begin = clocks.paced.now();
  clocks.PassEvenly(apart, 100 * kEpoch);
  return clocks.Since(begin) / (100 * kEpoch);
}

TEST(PacedClock, AgesAreAboutTheTouchesAsLongAsTheyTakeTheSame) {
  Clocks clocks;
  const double per_touch = AgeOfTouch(clocks, milliseconds(3));
  EXPECT_GT(per_touch, 1);
  EXPECT_LT(per_touch, 1.6);
  const double begin = clocks.paced.now();
  const TouchClock::Stamp stamp = clocks.touches.stamp();
  for (int i = 1; i < 500 * static_cast<int>(kEpoch); ++i) {
    clocks.Pass(milliseconds(3));
    const double age = i * per_touch;
    ASSERT_NEAR(clocks.Since(begin), age, 0.02 * age) << i;
    ASSERT_NEAR(clocks.paced.AgeClassOf(stamp), clocks.paced.AgeClass(age), 1) << i;
  }
  for (const uint64_t epochs_ago : {1, 10, 400}) {
    const uint64_t middle = (clocks.touches.epoch() - epochs_ago) * kEpoch + kEpoch / 2;
    const double age = static_cast<double>(clocks.touches.now() - middle) * per_touch;
    EXPECT_NEAR(clocks.paced.AgeOfEpoch(epochs_ago), age, 0.02 * age + 2);
  }
}

TEST(PacedClock, AnAgeIsTheSameTimeAtAnyPaceOfTouches) {
  Clocks clocks;
  const double per_ms = AgeOfTouch(clocks, milliseconds(8)) / 8;
  for (const int pace_ms : {1, 2, 32, 8}) {
    // Until earlier intervals no longer count.
    clocks.PassEvenly(milliseconds(pace_ms), 1000 * kEpoch);
    const TouchClock::Stamp stamp = clocks.touches.stamp();
    const double begin = clocks.paced.now();
    clocks.PassEvenly(milliseconds(pace_ms), 400 * kEpoch);
    const double age = 400.0 * kEpoch * pace_ms * per_ms;
    EXPECT_NEAR(clocks.Since(begin), age, 0.02 * age) << pace_ms;
    EXPECT_NEAR(clocks.paced.AgeClassOf(stamp), clocks.paced.AgeClass(age), 1) << pace_ms;
    EXPECT_NEAR(clocks.paced.AgeOfEpoch(400), age, 0.02 * age) << pace_ms;
  }
}

TEST(PacedClock, ANightDoesNotMakeAllOld) {
  Clocks clocks;
  const double per_touch = AgeOfTouch(clocks, milliseconds(5));
  const double begin = clocks.paced.now();
  clocks.Pass(hours(9));
  EXPECT_LT(clocks.Since(begin), 4);
  clocks.PassEvenly(milliseconds(5), 1000 * kEpoch);
  EXPECT_GT(clocks.Since(begin), per_touch * 1000 * kEpoch);
  EXPECT_LT(clocks.Since(begin), per_touch * 1100 * kEpoch);
}

// A new server serves a few requests and is then idle for a night.
TEST(PacedClock, ANightBeforeTheUnitIsSettledIsNoPartOfIt) {
  for (const int touches_before : {1, 100, 50 * static_cast<int>(kEpoch)}) {
    Clocks clocks;
    clocks.PassEvenly(milliseconds(5), touches_before);
    clocks.Pass(hours(9));
    clocks.PassEvenly(milliseconds(5), kSettled);
    const TouchClock::Stamp stamp = clocks.touches.stamp();
    for (const int num_epochs : {1, 100, 1000}) {
      const double begin = clocks.paced.now();
      const int num_touches = num_epochs * static_cast<int>(kEpoch);
      clocks.PassEvenly(milliseconds(5), num_touches);
      EXPECT_NEAR(clocks.Since(begin), num_touches, 0.1 * num_touches) << touches_before;
    }
    EXPECT_NEAR(clocks.paced.AgeClassOf(stamp), clocks.touches.AgeClassOf(stamp), 1);
    const double middle = 599.5 * kEpoch;
    EXPECT_NEAR(clocks.paced.AgeOfEpoch(600), middle, 0.1 * middle) << touches_before;
  }
}

// A single pause is not enough to compute the mean time between two block uses.
TEST(PacedClock, AgesAreTouchesUntilTimePassesMoreThanOnce) {
  Clocks clocks;
  clocks.Pass(Duration{}, 10);
  clocks.Pass(hours(9), 10);
  clocks.PassEvenly(Duration{}, 2 * kSettled);
  EXPECT_EQ(clocks.paced.now(), 2 * kSettled + 20);
}

TEST(PacedClock, TimeNeverStandsStill) {
  Clocks clocks;
  clocks.PassEvenly(milliseconds(5), kSettled);
  // Uses blocks, without time passing, until the clock has added all earlier time.
  clocks.PassEvenly(Duration{}, 500 * kEpoch);
  const double begin = clocks.paced.now();
  clocks.PassEvenly(Duration{}, 100 * kEpoch);
  EXPECT_GT(clocks.Since(begin), 100 * kEpoch / 64);
  EXPECT_LT(clocks.Since(begin), 100 * kEpoch / 15);
}

TEST(PacedClock, WhatIsEarlierThanReportedBeforeIsNow) {
  Clocks clocks;
  clocks.PassEvenly(milliseconds(5), kSettled);
  const double begin = clocks.paced.now();
  clocks.now -= hours(1);
  clocks.PassEvenly(Duration{}, kEpoch);
  EXPECT_GE(clocks.Since(begin), 0);
  EXPECT_LE(clocks.Since(begin), 2 * kEpoch);
}

TEST(PacedClock, WhatIsOlderThanAllThatIsRememberedIsAsOldAsThat) {
  Clocks clocks;
  const TouchClock::Stamp first = clocks.touches.stamp();
  clocks.PassEvenly(milliseconds(1), kSettled);
  const TouchClock::Stamp second = clocks.touches.stamp();
  clocks.Pass(seconds(200), 5000 * kEpoch);  // in one call, more epochs pass than the clock stores
  EXPECT_EQ(clocks.paced.AgeClassOf(first), clocks.paced.AgeClassOf(second));
  EXPECT_EQ(clocks.paced.AgeOfEpoch(1023), clocks.paced.AgeOfEpoch(4000));
  EXPECT_GT(clocks.paced.AgeOfEpoch(1023), clocks.paced.AgeOfEpoch(1000));
}

TEST(PacedClock, AnyTimesAreAges) {
  Clocks clocks;
  clocks.Pass(Duration{});
  clocks.Pass(Duration{1}, kSettled);  // kSettled block uses within one nanosecond
  const TouchClock::Stamp stamp = clocks.touches.stamp();
  for (int year = 0; year < 100; ++year) clocks.Pass(hours(24 * 365), kEpoch);
  EXPECT_EQ(clocks.paced.AgeClassOf(stamp), TouchClock::kAges - 1);
  EXPECT_EQ(clocks.paced.AgeClass(1e300), TouchClock::kAges - 1);
  EXPECT_EQ(clocks.paced.AgeClass(0), 0);
}

}  // namespace
}  // namespace incipit
