// Fixture of the tests of loads from a tier: a scheduler with a fake tier that has the chunks of a
// prompt.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <utility>
#include <vector>

#include "tests/scheduler/scheduler_fixture.h"
#include "tests/support/fake_tier.h"

namespace incipit {

inline constexpr int32_t kLoadsBlock = 4;  // tokens
inline const ChunkShape kLoadsShape = {.block_size = kLoadsBlock,
                                       .blocks_per_chunk = 2,
                                       .block_bytes = kLoadsBlock * sizeof(uint64_t)};

// A scheduler whose tier has the chunks of the prompt of request 1. The cache is empty.
class LoadsTest : public testing::Test {
 protected:
  explicit LoadsTest(FakeTierOptions tier_options = {.shape = kLoadsShape, .polls_max = 0},
                     SchedulerOptions limits = {.step_tokens_max = 64, .running_max = 8},
                     int32_t num_blocks = 64)
      : tier_(tier_options),
        fixture_({.num_blocks = num_blocks, .block_size = kLoadsBlock}, std::move(limits), &tier_) {
    fixture_.Add(Ask(1, 33));
    Finish();
    expected_ = fixture_.OutputOf(1).tokens;
    EXPECT_EQ(tier_.num_chunks(), 4);
    ResetDevice();
  }

  // Returns a request with the prompt 0, 1, 2 and so on.
  static Request Ask(uint64_t id, int32_t num_prompt, int32_t num_output = 4) {
    Request request = SchedulerFixture::Ask(id, num_prompt, num_output);
    std::iota(request.prompt.begin(), request.prompt.end(), 0);
    return request;
  }
  // Runs steps until all requests have ended. Each plan is 1 ms later than the previous plan.
  void Finish() {
    for (int32_t i = 0; i < 10'000 && !fixture_.scheduler.idle(); ++i) Step();
    EXPECT_TRUE(fixture_.scheduler.idle());
    tier_.Poll();
  }
  // Computes 20 requests in steps of 10 ms, so that the scheduler can predict the time of a step.
  void TrainStepTimes() {
    fixture_.duration = std::chrono::milliseconds(10);
    for (uint64_t id = 100; id < 120; ++id) {
      fixture_.Add(SchedulerFixture::Ask(id, 20, 2, static_cast<TokenId>(id)));
      Finish();
    }
    ASSERT_TRUE(fixture_.scheduler.step_times().trained());
  }
  SchedulerFixture::Shares Step() { return fixture_.Step(now_ += std::chrono::milliseconds(1)); }
  void ResetDevice() { ASSERT_TRUE(fixture_.cache.ResetPrefixCache()); }
  const AdmissionEvent& AdmissionOf(uint64_t id) { return fixture_.admissions[id]; }

  FakeTier tier_;
  SchedulerFixture fixture_;
  Time now_{};
  std::vector<TokenId> expected_;  // output of request 1
};

}  // namespace incipit
