#include "kvcache/hit_ratio_monitor.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <utility>

namespace incipit {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr Time kStart{std::chrono::hours(1000)};

// Adds `count` lookups, one per minute from `begin` on. Each lookup asks for `tokens` tokens and
// finds `tokens` * `share` of these tokens.
void AddMinutes(HitRatioMonitor& windows, Time begin, int count, int64_t tokens, double share) {
  for (int i = 0; i < count; ++i) {
    const auto num_hits = static_cast<int64_t>(static_cast<double>(tokens) * share);
    windows.Add(begin + minutes(i), {.query_tokens = tokens, .hit_tokens = num_hits});
  }
}

TEST(HitRatioMonitorTest, NothingCountedIsZeroAndHasNotDecayed) {
  const HitRatioMonitor windows;
  for (const Time now : {Time{}, kStart}) {
    EXPECT_EQ(windows.Within(HitRatioMonitor::kHour, now).query_tokens, 0);
    EXPECT_EQ(windows.Read(now).minute, 0);
    EXPECT_FALSE(windows.Read(now).decayed);
  }
}

TEST(HitRatioMonitorTest, AWindowForgetsWhatLiesBeforeIt) {
  HitRatioMonitor windows;
  windows.Add(kStart, {.query_tokens = 100, .hit_tokens = 80});
  const auto tokens = [&](Duration window, Duration later) {
    return windows.Within(window, kStart + later).query_tokens;
  };
  EXPECT_EQ(tokens(minutes(1), seconds(0)), 100);
  EXPECT_EQ(tokens(minutes(1), seconds(60)), 100);
  EXPECT_EQ(tokens(minutes(1), seconds(65)), 0);
  EXPECT_EQ(tokens(minutes(10), seconds(65)), 100);
  EXPECT_EQ(tokens(minutes(10), seconds(605)), 0);
  EXPECT_EQ(tokens(hours(1), seconds(605)), 100);
  EXPECT_EQ(tokens(hours(1), hours(1) + seconds(5)), 0);
  EXPECT_EQ(tokens(hours(1), hours(1000)), 0);
}

TEST(HitRatioMonitorTest, EachWindowHasARatioOfItsOwn) {
  HitRatioMonitor windows;
  windows.Add(kStart, {.query_tokens = 1000, .hit_tokens = 900});
  windows.Add(kStart + minutes(30), {.query_tokens = 1000, .hit_tokens = 600});
  windows.Add(kStart + minutes(35), {.query_tokens = 500, .hit_tokens = 0});
  const HitRatios ratios = windows.Read(kStart + minutes(35) + seconds(30));
  EXPECT_DOUBLE_EQ(ratios.minute, 0);
  EXPECT_DOUBLE_EQ(ratios.ten_minutes, 0.4);
  EXPECT_DOUBLE_EQ(ratios.hour, 0.6);
}

TEST(HitRatioMonitorTest, TimesFromTheEpochOfTheClockOnAreTaken) {
  HitRatioMonitor windows;
  windows.Add(Time{}, {.query_tokens = 10, .hit_tokens = 5});
  windows.Add(Time{} + seconds(7), {.query_tokens = 10, .hit_tokens = 0});
  EXPECT_DOUBLE_EQ(windows.Read(Time{} + seconds(8)).minute, 0.25);
}

TEST(HitRatioMonitorTest, ATimeBeforeTheLatestCountsAsTheLatest) {
  HitRatioMonitor windows;
  windows.Add(kStart, {.query_tokens = 10, .hit_tokens = 5});
  windows.Add(kStart - minutes(20), {.query_tokens = 10, .hit_tokens = 5});
  EXPECT_EQ(windows.Within(minutes(1), kStart).query_tokens, 20);
  EXPECT_EQ(windows.Within(minutes(1), kStart - minutes(20)).query_tokens, 20);
}

TEST(HitRatioMonitorTest, AgreesWithAListOfEverythingThatWasCounted) {
  HitRatioMonitor windows;
  std::deque<std::pair<Time, HitCounts>> all;
  std::mt19937 random(7);
  Time now = kStart;
  for (int i = 0; i < 20'000; ++i) {
    // Most pauses between lookups are shorter than 3 s. Every thousandth pause may last up to 8000
    // s, which is longer than every time window of the monitor.
    now += std::chrono::milliseconds(random() % (i % 1000 == 0 ? 8'000'000 : 3000));
    const auto num_tokens = static_cast<int64_t>(random() % 5000);
    const HitCounts counts = {.query_tokens = num_tokens, .hit_tokens = num_tokens / 3};
    windows.Add(now, counts);
    all.emplace_back(now, counts);
    while (all.front().first < now - hours(2)) all.pop_front();
    if (i % 50 != 0) continue;
    const Time read_at = now + seconds(random() % 100);
    for (const Duration window :
         {HitRatioMonitor::kMinute, HitRatioMonitor::kTenMinutes, HitRatioMonitor::kHour}) {
      int64_t least = 0, most = 0;
      for (const auto& [time, added] : all) {
        if (time >= read_at - window) least += added.query_tokens;
        if (time > read_at - window - HitRatioMonitor::kResolution) most += added.query_tokens;
      }
      const int64_t read = windows.Within(window, read_at).query_tokens;
      EXPECT_GE(read, least) << i;
      EXPECT_LE(read, most) << i;
    }
  }
}

TEST(HitRatioMonitorTest, ARatioThatFallsBelowHalfOfItsHourHasDecayed) {
  HitRatioMonitor windows;
  AddMinutes(windows, kStart, 50, 2000, 0.8);
  EXPECT_FALSE(windows.HasDecayed(kStart + minutes(50)));
  AddMinutes(windows, kStart + minutes(51), 10, 2000, 0.2);
  EXPECT_TRUE(windows.HasDecayed(kStart + minutes(60)));
  EXPECT_TRUE(windows.Read(kStart + minutes(60)).decayed);
}

TEST(HitRatioMonitorTest, ALittleLessHasNotDecayed) {
  HitRatioMonitor windows;
  AddMinutes(windows, kStart, 50, 2000, 0.8);
  AddMinutes(windows, kStart + minutes(51), 10, 2000, 0.5);
  EXPECT_FALSE(windows.HasDecayed(kStart + minutes(60)));
}

TEST(HitRatioMonitorTest, AColdStartHasNotDecayed) {
  HitRatioMonitor windows;
  AddMinutes(windows, kStart, 60, 5000, 0);
  EXPECT_FALSE(windows.HasDecayed(kStart + minutes(60)));
}

TEST(HitRatioMonitorTest, TooLittleTrafficOnEitherSideSaysNothing) {
  const auto decayed = [](int64_t before, int64_t recent) {
    HitRatioMonitor windows;
    windows.Add(kStart, {.query_tokens = before, .hit_tokens = before});
    windows.Add(kStart + minutes(40), {.query_tokens = recent, .hit_tokens = 0});
    return windows.HasDecayed(kStart + minutes(41));
  };
  constexpr int64_t kEnough = HitRatioMonitor::kDecayTokensMin;
  EXPECT_TRUE(decayed(kEnough, kEnough));
  EXPECT_FALSE(decayed(kEnough - 1, kEnough));
  EXPECT_FALSE(decayed(kEnough, kEnough - 1));
  EXPECT_FALSE(decayed(0, kEnough));
}

TEST(HitRatioMonitorTest, ADecayEndsWithTheHourThatItIsMeasuredBy) {
  HitRatioMonitor windows;
  AddMinutes(windows, kStart, 50, 2000, 0.8);
  AddMinutes(windows, kStart + minutes(50), 15, 2000, 0.1);
  EXPECT_TRUE(windows.HasDecayed(kStart + minutes(65)));
  AddMinutes(windows, kStart + minutes(65), 45, 2000, 0.1);
  EXPECT_FALSE(windows.HasDecayed(kStart + minutes(109)));
}

}  // namespace
}  // namespace incipit
