#include "kvcache/policies/lru_guard.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "kvcache/policies/touch_clock.h"

namespace incipit {
namespace {

constexpr int32_t kCapacity = 1000;

class LruGuardTest : public ::testing::Test {
 protected:
  // Counts requests until the guard makes the cache evict in the order of plain LRU. In each
  // request, plain LRU would have had 10 hits, and the adaptive policy has none.
  void Fool() {
    int32_t debt = 0;
    while (!guard_.Compare(10, 0)) ASSERT_LT(debt += 10, kCapacity);
  }
  // Returns the number of block uses during which evictions follow plain LRU, divided by the
  // capacity.
  double Relief() {
    int64_t touches = 0;
    for (; guard_.TakesOver(); touches += 10) clock_.Advance(10);
    return static_cast<double>(touches) / kCapacity;
  }
  void Pass(double capacities) {
    clock_.Advance(static_cast<uint64_t>(capacities * kCapacity));
    guard_.BeginEpoch();
  }

  TouchClock clock_{uint64_t{1} << 40, 4, 64};
  LruGuard guard_{clock_, kCapacity};
};

TEST_F(LruGuardTest, TheSameHitsNeverTakeOver) {
  for (int i = 0; i < 10'000; ++i) EXPECT_FALSE(guard_.Compare(i % 7, i % 7));
  EXPECT_FALSE(guard_.TakesOver());
}

TEST_F(LruGuardTest, WhatIsLostHereAndWonThereIsNoDebt) {
  for (int i = 0; i < 10'000; ++i)
    EXPECT_FALSE(i % 2 == 0 ? guard_.Compare(200, 0) : guard_.Compare(0, 200));
}

// In a small cache with long prompts, a few requests may lose as many hits as a quarter of the
// capacity. The guard must not react to so few requests.
TEST_F(LruGuardTest, AFewRequestsAreNoDebt) {
  for (int i = 0; i < 1000; ++i) guard_.CountRequest(200);
  EXPECT_FALSE(guard_.Compare(1200, 0));
  EXPECT_TRUE(guard_.Compare(400, 0));
}

TEST_F(LruGuardTest, ItTakesOverForLongerIfThatComesAgainSoon) {
  Fool();
  EXPECT_NEAR(Relief(), 2, 0.02);
  Pass(3);
  Fool();
  EXPECT_NEAR(Relief(), 4, 0.02);
  Pass(7);
  Fool();
  EXPECT_NEAR(Relief(), 8, 0.02);
}

TEST_F(LruGuardTest, SoonIsAsSoonHoweverLongItTookOver) {
  Fool();
  Relief();
  Pass(3);
  Fool();
  EXPECT_NEAR(Relief(), 4, 0.02);
  Pass(10);
  Fool();
  EXPECT_NEAR(Relief(), 2, 0.02);
}

}  // namespace
}  // namespace incipit
