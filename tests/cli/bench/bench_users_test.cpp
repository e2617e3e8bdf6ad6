#include "cli/bench/bench_users.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "cli/bench/bench_prompts.h"

namespace incipit {
namespace {

Time At(int64_t seconds) { return Time{} + std::chrono::seconds(seconds); }

TEST(BenchUsersTest, TheUserThatWasReadyFirstIsNext) {
  BenchUsers users(3);
  EXPECT_EQ(users.ready_at(), Time::min());
  EXPECT_EQ(users.Take(), 0);
  EXPECT_EQ(users.Take(), 1);
  EXPECT_EQ(users.Take(), 2);
  EXPECT_EQ(users.ready_at(), kNoDeadline);
  users.Release(0, At(9));
  users.Release(2, At(4));
  EXPECT_EQ(users.ready_at(), At(4));
  EXPECT_EQ(users.Take(), 2);
  EXPECT_EQ(users.Take(), 0);
}

TEST(BenchUsersTest, AUserIsAddedIfAllWait) {
  BenchUsers users(1);
  EXPECT_EQ(users.Take(), 0);
  EXPECT_EQ(users.Take(), 1);
  users.Release(0, At(1));
  EXPECT_EQ(users.Take(), 0);
  EXPECT_EQ(users.Take(), 2);
}

TEST(ThinkTimeTest, IsExponentialWithTheMean) {
  constexpr int32_t kNum = 20000;
  double sum = 0, sum_squares = 0;
  for (int32_t i = 0; i < kNum; ++i) {
    const double time = ThinkTime(3, i, 0.5);
    EXPECT_EQ(time, ThinkTime(3, i, 0.5));
    sum += time;
    sum_squares += time * time;
  }
  EXPECT_NEAR(sum / kNum, 0.5, 0.015);
  EXPECT_NEAR(sum_squares / kNum, 0.5, 0.04);
}

}  // namespace
}  // namespace incipit
