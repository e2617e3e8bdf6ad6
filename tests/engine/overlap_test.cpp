// Tests the engine with two steps in flight, over a runner that computes steps on a separate
// thread.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "base/status.h"
#include "engine/engine.h"
#include "tests/engine/engine_fixture.h"

namespace incipit {
namespace {

EngineOptions TwoSteps() {
  EngineOptions options = EngineFixture::DefaultOptions();
  options.scheduler.steps_in_flight_max = 2;
  return options;
}

struct OverlapFixture : EngineFixture {
  explicit OverlapFixture(EngineOptions options = TwoSteps()) : EngineFixture(options, true) {}

  bool Reset() {
    std::promise<bool> done;
    EXPECT_TRUE(engine->ResetPrefixCache([&](bool was_reset) { done.set_value(was_reset); }).ok());
    return done.get_future().get();
  }
};

// Returns a request that stops at its fourth output token. Its limit is 40 output tokens.
Request AskToStop(uint64_t id) {
  Request request = EngineFixture::Ask(id, 9, 40);
  request.stop_tokens = {EngineFixture::Expected(request)[3]};
  return request;
}

TEST(OverlapTest, StreamsTheOutputsOfTheModel) {
  OverlapFixture fixture;
  Request request = EngineFixture::Ask(1, 30, 20);
  request.num_choices = 3;
  request.prompt_logprobs = 0;
  request.sampling.num_logprobs = 1;
  const Request other = EngineFixture::Ask(2, 100, 30);
  ASSERT_TRUE(fixture.Submit(request).ok());
  ASSERT_TRUE(fixture.Submit(other).ok());
  fixture.listener.WaitForEnd(1, 3);
  fixture.listener.WaitForEnd(2);
  for (const int32_t choice : {0, 1, 2}) {
    EXPECT_EQ(fixture.listener.OutputOf(1, choice).tokens,
              EngineFixture::Expected(request, choice));
  }
  EXPECT_EQ(fixture.listener.OutputOf(2).tokens, EngineFixture::Expected(other));
  EXPECT_EQ(fixture.listener.PromptLogprobsOf(1).size(), 29u);
}

TEST(OverlapTest, WhicheverStepDoesNothingIsDoneAgain) {
  for (size_t failing = 0; failing < 9; ++failing) {
    OverlapFixture fixture;
    std::vector<absl::Status> statuses(failing, absl::OkStatus());
    statuses.push_back(absl::AbortedError("busy"));
    fixture.gate.Fail(statuses);
    const Request request = EngineFixture::Ask(1, 100, 5);  // two chunks
    ASSERT_TRUE(fixture.Submit(request).ok());
    fixture.listener.WaitForEnd(1);
    EXPECT_EQ(fixture.listener.OutputOf(1).tokens, EngineFixture::Expected(request));
    EXPECT_TRUE(fixture.engine->Drain(kNoDeadline));
    EXPECT_EQ(fixture.engine->Load().num_used_blocks, 0);
  }
}

TEST(OverlapTest, ADeviceThatFailsEndsEveryRequestWhateverIsInFlight) {
  for (size_t failing = 0; failing < 4; ++failing) {
    OverlapFixture fixture;
    std::vector<absl::Status> statuses(failing, absl::OkStatus());
    statuses.push_back(absl::InternalError("the device is gone"));
    fixture.gate.Fail(statuses);
    ASSERT_TRUE(fixture.Submit(EngineFixture::Ask(1, 9, 100)).ok());
    EXPECT_THAT(MessageOf(fixture.listener.WaitForFatal()), testing::HasSubstr("device is gone"));
    EXPECT_EQ(fixture.listener.OutputOf(1).finish, FinishReason::kError);
    EXPECT_EQ(fixture.listener.OutputOf(1).tokens.size(), failing);
    EXPECT_TRUE(fixture.engine->Drain(kNoDeadline));
    EXPECT_EQ(fixture.engine->Load().num_used_blocks, 0);
  }
}

TEST(OverlapTest, WhatIsInFlightAtTheEndIsCancelled) {
  RecordingListener listener;
  {
    ManualClock clock;
    StepGate gate;
    const FakeRunnerOptions runner = {.num_blocks = 64, .block_size = 4, .asynchronous = true};
    Engine engine(TwoSteps(), std::make_unique<GatedRunner>(runner, gate), listener, clock);
    ASSERT_TRUE(engine.Submit(std::make_shared<const Request>(EngineFixture::Ask(1, 5, 200))).ok());
    listener.WaitForTokens(1, 3);
  }
  const auto output = listener.OutputOf(1);
  EXPECT_TRUE(output.finish == FinishReason::kCancelled || output.tokens.size() == 200);
  EXPECT_EQ(listener.num_events_after_end(), 0);
}

TEST(OverlapTest, AfterTheEndOfAllIsReportedTheCacheCanBeEmptied) {
  OverlapFixture fixture;
  for (uint64_t id = 1; id <= 20; ++id) {
    const Request request = AskToStop(id);
    ASSERT_TRUE(fixture.Submit(request).ok());
    fixture.listener.WaitForEnd(id);
    EXPECT_EQ(fixture.listener.OutputOf(id).finish, FinishReason::kStop);
    EXPECT_TRUE(fixture.Reset());  // the next step with this request is in flight
  }
}

TEST(OverlapTest, NothingIsUsedOnceAllHasDrained) {
  OverlapFixture fixture;
  ASSERT_TRUE(fixture.Submit(AskToStop(1)).ok());
  ASSERT_TRUE(fixture.Submit(AskToStop(2)).ok());
  EXPECT_TRUE(fixture.engine->Drain(kNoDeadline));
  EXPECT_EQ(fixture.engine->Load().num_used_blocks, 0);
  EXPECT_EQ(fixture.engine->Load().num_running, 0);
}

TEST(OverlapTest, AnIdIsFreeOnceItsEndIsReported) {
  OverlapFixture fixture;
  ASSERT_TRUE(fixture.Submit(AskToStop(1)).ok());
  fixture.listener.WaitForEnd(1);
  // A step in flight still computes for the earlier request with the id 1.
  ASSERT_TRUE(fixture.Submit(EngineFixture::Ask(1, 5, 3)).ok());
  EXPECT_TRUE(fixture.engine->Drain(kNoDeadline));
  EXPECT_EQ(fixture.listener.OutputOf(1).tokens.size(), 7u);  // of both
}

TEST(OverlapTest, TheTimesOfStepsDoNotOverlap) {
  EngineFixture fixture(TwoSteps());
  fixture.gate.Close();
  ASSERT_TRUE(fixture.Submit(EngineFixture::Ask(1, 10, 5)).ok());
  fixture.gate.WaitForStep();
  for (const int64_t milliseconds : {7, 5, 3}) {  // each time, the next step is already launched
    fixture.clock.Advance(std::chrono::milliseconds(milliseconds));
    fixture.gate.Pass(1);
    fixture.gate.WaitForStep();
    EXPECT_EQ(fixture.listener.last_stats().run, std::chrono::milliseconds(milliseconds));
    EXPECT_EQ(fixture.listener.last_stats().duration, std::chrono::milliseconds(milliseconds));
  }
}

// If a step fails while another step is in flight behind it, the engine waits for both steps.
TEST(OverlapTest, TheDurationOfAStepExcludesFailedAttempts) {
  for (const int32_t steps_in_flight : {1, 2}) {
    EngineOptions options = EngineFixture::DefaultOptions();
    options.scheduler.steps_in_flight_max = steps_in_flight;
    EngineFixture fixture(options);
    fixture.gate.Close();
    fixture.gate.Fail({absl::AbortedError("busy")});
    ASSERT_TRUE(fixture.Submit(EngineFixture::Ask(1, 10, 5)).ok());
    fixture.gate.WaitForStep();
    for (int32_t i = 0; i < steps_in_flight; ++i) {
      fixture.clock.Advance(std::chrono::milliseconds(7));
      fixture.gate.Pass(1);
      fixture.gate.WaitForStep();
    }
    fixture.clock.Advance(std::chrono::milliseconds(5));
    fixture.gate.Pass(1);
    fixture.gate.WaitForStep();
    EXPECT_EQ(fixture.listener.last_stats().duration, std::chrono::milliseconds(5));
    EXPECT_EQ(fixture.listener.last_stats().run, std::chrono::milliseconds(7 + 5));
  }
}

// Submits one request of a client. The client waits for the outputs of some requests, and does not
// wait for others.
void AskAndCheck(EngineFixture& fixture, uint64_t id, uint64_t i) {
  Request request =
      EngineFixture::Ask(id, 1 + static_cast<int32_t>(i % 30), 1 + static_cast<int32_t>(i % 17));
  request.num_choices = 1 + static_cast<int32_t>(i % 2);
  const std::vector<TokenId> output = EngineFixture::Expected(request);
  const bool stops = i % 4 == 0;
  if (stops) request.stop_tokens = {output[output.size() / 2]};
  if (i % 11 == 0) request.sampling.presence_penalty = 1;
  const absl::Status status = fixture.Submit(request);
  if (!status.ok()) {
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    return;
  }
  if (i % 5 == 0) fixture.engine->Cancel(request.id);
  if (i % 13 == 0) fixture.engine->CancelChoice(request.id, 0);
  if (i % 7 == 0) fixture.engine->Load();
  if (i % 3 == 0) fixture.listener.WaitForEnd(id, request.num_choices);
  const bool is_whole = i % 5 != 0 && i % 13 != 0 && i % 11 != 0 && !stops;
  if (!is_whole || i % 3 != 0) return;
  for (int32_t choice = 0; choice < request.num_choices; ++choice) {
    EXPECT_EQ(fixture.listener.OutputOf(id, choice).tokens,
              EngineFixture::Expected(request, choice));
  }
}

class ManyThreadsTest : public testing::TestWithParam<int32_t> {};

TEST_P(ManyThreadsTest, EachGetTheirOwnOutputs) {
  EngineOptions options = EngineFixture::DefaultOptions();
  options.scheduler.steps_in_flight_max = GetParam();
  options.cache.num_blocks = 24;
  options.requests_max = 20;
  EngineFixture fixture(options, GetParam() > 1);
  constexpr uint64_t kThreads = 4, kRequests = 200;
  std::vector<std::thread> threads;
  for (uint64_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&fixture, thread] {
      for (uint64_t i = 0; i < kRequests; ++i) AskAndCheck(fixture, thread * 1000 + i + 1, i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(fixture.engine->Drain(kNoDeadline));
  EXPECT_EQ(fixture.engine->Load().num_used_blocks, 0);
  EXPECT_EQ(fixture.listener.num_events_after_end(), 0);
}

INSTANTIATE_TEST_SUITE_P(StepsInFlight, ManyThreadsTest, testing::Values(1, 2));

}  // namespace
}  // namespace incipit
