#include "engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "base/limit.h"
#include "base/status.h"
#include "tests/engine/engine_fixture.h"

namespace incipit {
namespace {

using testing::HasSubstr;

Time Later(const EngineFixture& fixture, int64_t milliseconds) {
  return fixture.clock.Now() + std::chrono::milliseconds(milliseconds);
}

TEST(EngineTest, StreamsTheOutputOfTheModel) {
  EngineFixture fixture;
  Request request = EngineFixture::Ask(1, 9, 5);
  request.num_choices = 2;
  request.prompt_logprobs = 0;
  request.sampling.num_logprobs = 1;
  ASSERT_TRUE(fixture.Submit(request).ok());
  fixture.listener.WaitForEnd(1, 2);
  for (const int32_t choice : {0, 1}) {
    EXPECT_EQ(fixture.listener.OutputOf(1, choice).tokens,
              EngineFixture::Expected(request, choice));
    EXPECT_EQ(fixture.listener.OutputOf(1, choice).finish, FinishReason::kLength);
  }
  EXPECT_EQ(fixture.listener.AdmissionOf(1).num_prompt_tokens, 9);
  const auto scored = fixture.listener.PromptLogprobsOf(1);
  ASSERT_EQ(scored.size(), 8u);
  for (size_t i = 0; i < scored.size(); ++i) EXPECT_EQ(scored[i].token, request.prompt[i + 1]);
}

TEST(EngineTest, TheSecondOfTwoEqualPromptsReadsTheCache) {
  EngineFixture fixture;
  for (const uint64_t id : {3, 6}) {
    ASSERT_TRUE(fixture.Submit(EngineFixture::Ask(id, 21, 2)).ok());
    fixture.listener.WaitForEnd(id);
  }
  EXPECT_EQ(fixture.listener.AdmissionOf(3).num_cached_tokens, 0);
  EXPECT_EQ(fixture.listener.AdmissionOf(6).num_cached_tokens, 20);
}

TEST(EngineTest, AnAdmissionSaysWhatWasCopiedAndWhyNoMoreWasFound) {
  EngineFixture fixture;
  for (const uint64_t id : {3, 6}) {
    ASSERT_TRUE(fixture.Submit(EngineFixture::Ask(id, 20, 2)).ok());
    fixture.listener.WaitForEnd(id);
  }
  EXPECT_EQ(fixture.listener.AdmissionOf(3).miss.reason, MissReason::kUnseen);
  EXPECT_EQ(fixture.listener.AdmissionOf(6).miss.reason, MissReason::kNone);
  EXPECT_EQ(fixture.listener.AdmissionOf(6).num_cached_tokens, 19);
  EXPECT_EQ(fixture.listener.AdmissionOf(6).num_copied_tokens, 3);
}

TEST(EngineTest, HitRatiosAreThoseOfTheLastMinutes) {
  EngineFixture fixture;
  for (const uint64_t id : {3, 6}) {
    ASSERT_TRUE(fixture.Submit(EngineFixture::Ask(id, 20, 2)).ok());
    fixture.listener.WaitForEnd(id);
  }
  EXPECT_DOUBLE_EQ(fixture.engine->Load().hit_ratios.minute, 19.0 / 40);
  fixture.clock.Advance(std::chrono::minutes(2));
  EXPECT_EQ(fixture.engine->Load().hit_ratios.minute, 0);
  EXPECT_DOUBLE_EQ(fixture.engine->Load().hit_ratios.ten_minutes, 19.0 / 40);
  EXPECT_FALSE(fixture.engine->Load().hit_ratios.decayed);
}

TEST(EngineTest, TheExpectedWaitGrowsWithEachWaitingRequest) {
  EngineOptions options = EngineFixture::DefaultOptions();
  options.cache.prefix_cache = false;
  EngineFixture fixture(options);
  fixture.gate.Close();
  EXPECT_EQ(fixture.engine->expected_wait(), std::nullopt);
  for (uint64_t id = 1; id <= 20; ++id) {
    EXPECT_EQ(fixture.engine->expected_wait().has_value(), id > 8) << "after 8 steps with prompts";
    const int32_t num_prompt = 10 + 10 * static_cast<int32_t>(id % 4);
    ASSERT_TRUE(fixture.Submit(EngineFixture::Ask(id, num_prompt, 1)).ok());
    fixture.gate.WaitForStep();
    fixture.clock.Advance(std::chrono::milliseconds(10 * num_prompt));
    fixture.gate.Pass(1);
    fixture.listener.WaitForEnd(id);
  }
  const double idle_s = ToSeconds(*fixture.engine->expected_wait());
  EXPECT_NEAR(idle_s, 0.25, 0.05);  // a prompt of 25 tokens
  for (uint64_t id = 101; id <= 105; ++id) {
    ASSERT_TRUE(fixture.Submit(EngineFixture::Ask(id, 50, 1)).ok());
    const double busy_s = ToSeconds(*fixture.engine->expected_wait());
    EXPECT_NEAR(busy_s - idle_s, 0.5 * static_cast<double>(id - 100), 0.3);
  }
  EXPECT_EQ(fixture.engine->Load().expected_wait, fixture.engine->expected_wait());
  fixture.gate.Open();
  fixture.listener.WaitForEnd(105);
}

TEST(EngineTest, AResetIsReportedAtOnceThoughNoStepFollows) {
  EngineFixture fixture;
  ASSERT_TRUE(fixture.Submit(EngineFixture::Ask(1, 21, 2)).ok());
  fixture.listener.WaitForEnd(1);
  std::promise<bool> done;
  ASSERT_TRUE(
      fixture.engine->ResetPrefixCache([&](bool was_reset) { done.set_value(was_reset); }).ok());
  EXPECT_TRUE(done.get_future().get());
  const EvictionStats evictions = fixture.listener.last_stats().cache.evictions;
  EXPECT_EQ(evictions.by_reason[static_cast<size_t>(EvictionReason::kReset)], 5);
  EXPECT_EQ(fixture.listener.last_stats().num_tokens, 0);
  EXPECT_EQ(fixture.engine->Load().num_cached_blocks, 0);
}

AdmissionPreview PreviewOf(EngineFixture& fixture, Request request) {
  std::promise<AdmissionPreview> preview;
  EXPECT_TRUE(
      fixture.Preview(std::move(request), [&](const AdmissionPreview& p) { preview.set_value(p); })
          .ok());
  return preview.get_future().get();
}

TEST(EngineTest, APreviewIsWhatTheAdmissionThenDoes) {
  EngineFixture fixture;
  ASSERT_TRUE(fixture.Submit(EngineFixture::Ask(3, 21, 2)).ok());
  fixture.listener.WaitForEnd(3);
  const AdmissionPreview preview = PreviewOf(fixture, EngineFixture::Ask(6, 40, 1));
  EXPECT_TRUE(preview.fits);
  EXPECT_EQ(preview.cached_tokens, 20);
  EXPECT_EQ(preview.blocks_needed, 10);
  EXPECT_EQ(preview.blocks_evicted, 0);
  fixture.gate.Close();
  ASSERT_TRUE(fixture.Submit(EngineFixture::Ask(6, 40, 1)).ok());
  fixture.gate.WaitForStep();
  fixture.gate.Open();
  fixture.listener.WaitForEnd(6);
  EXPECT_EQ(fixture.listener.AdmissionOf(6).num_cached_tokens, 20);
  EXPECT_EQ(fixture.listener.last_stats().cache.query_tokens, 40) << "the preview counts nothing";
}

TEST(EngineTest, APreviewRunsBetweenStepsAndReportsThatTheRequestMustWait) {
  EngineFixture fixture;  // the cache has 64 blocks of 4 tokens
  fixture.gate.Close();
  ASSERT_TRUE(fixture.Submit(EngineFixture::Ask(1, 40, 50)).ok());
  fixture.gate.WaitForStep();
  std::promise<AdmissionPreview> preview;
  Request other = EngineFixture::Ask(2, 220, 1);
  ASSERT_TRUE(
      fixture.Preview(other, [&](const AdmissionPreview& p) { preview.set_value(p); }).ok());
  fixture.gate.Pass(1);
  const AdmissionPreview reply = preview.get_future().get();
  EXPECT_FALSE(reply.fits);
  EXPECT_EQ(reply.blocks_needed, 55);
  fixture.gate.Open();
  fixture.listener.WaitForEnd(1);
}

TEST(EngineTest, PreviewsAreLimitedAndCheckedLikeRequests) {
  EngineFixture fixture;
  fixture.gate.Close();
  ASSERT_TRUE(fixture.Submit(EngineFixture::Ask(1, 5, 2)).ok());
  fixture.gate.WaitForStep();
  std::atomic<size_t> num_replies = 0;
  const auto ask = [&](Request request) {
    return fixture.Preview(std::move(request), [&](const AdmissionPreview&) { ++num_replies; });
  };
  EXPECT_EQ(ask(EngineFixture::Ask(2, 0, 1)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ask(EngineFixture::Ask(2, 256, 1)).code(), absl::StatusCode::kInvalidArgument);
  for (size_t i = 0; i < kPreviewsMax; ++i) ASSERT_TRUE(ask(EngineFixture::Ask(2, 5, 1)).ok());
  const absl::Status status = ask(EngineFixture::Ask(2, 5, 1));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(MessageOf(status), HasSubstr("64"));
  EXPECT_EQ(LimitOf(status), 64);
  fixture.gate.Open();
  fixture.listener.WaitForEnd(1);
  PreviewOf(fixture, EngineFixture::Ask(2, 5, 1));
  EXPECT_EQ(num_replies, kPreviewsMax);
}

TEST(EngineTest, ARequestThatCanNeverRunIsRefusedWithTheReason) {
  EngineFixture fixture;
  const auto refusal = [&](Request request) { return fixture.Submit(std::move(request)); };
  const absl::Status too_long = refusal(EngineFixture::Ask(1, 200, 57));
  EXPECT_EQ(too_long.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(too_long), HasSubstr("200"));
  EXPECT_THAT(MessageOf(too_long), HasSubstr("257"));
  EXPECT_THAT(MessageOf(too_long), HasSubstr("256"));
  EXPECT_TRUE(refusal(EngineFixture::Ask(2, 200, 56)).ok());
  EXPECT_EQ(refusal(EngineFixture::Ask(3, 0, 5)).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(refusal(EngineFixture::Ask(4, 5, 0)).code(), absl::StatusCode::kInvalidArgument);
  Request many = EngineFixture::Ask(5, 5, 5);
  many.num_choices = 17;
  EXPECT_EQ(refusal(many).code(), absl::StatusCode::kInvalidArgument);
  Request late = EngineFixture::Ask(6, 5, 5);
  late.deadline = fixture.clock.Now();
  EXPECT_EQ(refusal(late).code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(EngineTest, LimitsOfTheQueueAreKept) {
  EngineOptions options = EngineFixture::DefaultOptions();
  options.requests_max = 3;
  options.waiting_prompt_tokens_max = 20;
  options.scheduler.running_max = 1;
  EngineFixture fixture(options);
  fixture.gate.Close();
  // Accepted, because the queue is empty.
  ASSERT_TRUE(fixture.Submit(EngineFixture::Ask(1, 30, 2)).ok());
  fixture.gate.WaitForStep();
  const auto refused = fixture.Submit(EngineFixture::Ask(2, 5, 2));
  // Request 1 waits in the queue with 30 prompt tokens. The limit of waiting prompt tokens is 20.
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(MessageOf(refused), HasSubstr("20"));
  EXPECT_EQ(LimitOf(refused), 20);
  fixture.gate.Pass(1);
  fixture.gate.WaitForStep();
  EXPECT_EQ(fixture.Submit(EngineFixture::Ask(1, 5, 2)).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(fixture.Submit(EngineFixture::Ask(2, 5, 2)).ok());
  EXPECT_TRUE(fixture.Submit(EngineFixture::Ask(3, 5, 2)).ok());
  EXPECT_EQ(fixture.engine->Load().num_waiting, 2);
  EXPECT_EQ(fixture.engine->Load().num_waiting_prompt_tokens, 10);
  const auto full = fixture.Submit(EngineFixture::Ask(4, 1, 1));
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(MessageOf(full), HasSubstr("limit is 3"));
  EXPECT_EQ(LimitOf(full), 3);
  fixture.gate.Open();
  fixture.listener.WaitForEnd(3);
  EXPECT_TRUE(fixture.Submit(EngineFixture::Ask(4, 1, 1)).ok());
}

TEST(EngineTest, ACancelledRequestEndsWithTheStepThatHoldsIt) {
  EngineFixture fixture;
  fixture.gate.Close();
  ASSERT_TRUE(fixture.Submit(EngineFixture::Ask(1, 5, 200)).ok());
  fixture.gate.WaitForStep();
  fixture.gate.Pass(1);
  fixture.gate.WaitForStep();
  fixture.engine->Cancel(RequestId{1});
  fixture.engine->Cancel(RequestId{1});
  fixture.engine->Cancel(RequestId{77});
  fixture.gate.Open();
  fixture.listener.WaitForEnd(1);
  EXPECT_EQ(fixture.listener.OutputOf(1).finish, FinishReason::kCancelled);
  // A step was in flight at the time of the cancellation. The token of this step is also part of
  // the output.
  EXPECT_EQ(fixture.listener.OutputOf(1).tokens.size(), 2u);
  EXPECT_TRUE(fixture.engine->Drain(kNoDeadline));
  EXPECT_EQ(fixture.engine->Load().num_used_blocks, 0);
  EXPECT_EQ(fixture.listener.num_events_after_end(), 0);
}

TEST(EngineTest, ACancelledChoiceLeavesTheOthers) {
  EngineFixture fixture;
  fixture.gate.Close();
  Request request = EngineFixture::Ask(1, 5, 20);
  request.num_choices = 3;
  ASSERT_TRUE(fixture.Submit(request).ok());
  fixture.gate.WaitForStep();
  fixture.engine->CancelChoice(RequestId{1}, 0);
  fixture.engine->CancelChoice(RequestId{1}, -1);
  fixture.gate.Open();
  fixture.listener.WaitForEnd(1, 3);
  EXPECT_EQ(fixture.listener.OutputOf(1, 0).finish, FinishReason::kCancelled);
  for (const int32_t choice : {1, 2}) {
    EXPECT_EQ(fixture.listener.OutputOf(1, choice).tokens,
              EngineFixture::Expected(request, choice));
  }
}

TEST(EngineTest, ADeadlineEndsARequestWhereverItIs) {
  EngineOptions options = EngineFixture::DefaultOptions();
  options.scheduler.running_max = 1;
  EngineFixture fixture(options);
  fixture.gate.Close();
  for (const uint64_t id : {1, 2}) {
    Request request = EngineFixture::Ask(id, 5, 20);
    request.deadline = Later(fixture, 50);
    ASSERT_TRUE(fixture.Submit(request).ok());
  }
  fixture.gate.WaitForStep();
  fixture.clock.Advance(std::chrono::milliseconds(60));
  fixture.gate.Pass(1);
  fixture.listener.WaitForEnd(1);
  fixture.listener.WaitForEnd(2);
  for (const uint64_t id : {1, 2}) {
    EXPECT_EQ(fixture.listener.OutputOf(id).finish, FinishReason::kDeadline);
  }
  EXPECT_EQ(fixture.listener.OutputOf(1).tokens.size(), 1u);
  EXPECT_TRUE(fixture.listener.OutputOf(2).tokens.empty());
}

TEST(EngineTest, AnAbortedStepIsDoneAgain) {
  EngineFixture fixture;
  fixture.gate.Fail({absl::AbortedError("busy"), absl::OkStatus(), absl::AbortedError("busy")});
  const Request request = EngineFixture::Ask(1, 9, 5);
  ASSERT_TRUE(fixture.Submit(request).ok());
  fixture.listener.WaitForEnd(1);
  EXPECT_EQ(fixture.listener.OutputOf(1).tokens, EngineFixture::Expected(request));
}

void ExpectFatal(EngineFixture& fixture, std::string_view message) {
  ASSERT_TRUE(fixture.Submit(EngineFixture::Ask(1, 9, 5)).ok());
  const absl::Status fatal = fixture.listener.WaitForFatal();
  EXPECT_THAT(MessageOf(fatal), HasSubstr(std::string(message)));
  EXPECT_EQ(fixture.listener.OutputOf(1).finish, FinishReason::kError);
  const absl::Status refused = fixture.Submit(EngineFixture::Ask(2, 9, 5));
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(MessageOf(refused), HasSubstr(std::string(message)));
  EXPECT_TRUE(fixture.engine->Load().failed);
  EXPECT_TRUE(fixture.engine->Drain(kNoDeadline));
  EXPECT_TRUE(fixture.engine->Load().failed);

  // The thread still answers who asks.
  Mutex mutex;
  std::condition_variable_any changed;
  std::optional<bool> reset;
  const auto record = [&](bool done) {
    MutexLock lock(mutex);
    reset = done;
    changed.notify_all();
  };
  ASSERT_TRUE(fixture.engine->ResetPrefixCache(record).ok());
  MutexLock lock(mutex);
  while (!reset) changed.wait(mutex);
  EXPECT_EQ(reset, false);
}

TEST(EngineTest, ADeviceThatFailsEndsEveryRequest) {
  EngineFixture fixture;
  fixture.gate.Fail({absl::InternalError("the device is gone")});
  ExpectFatal(fixture, "the device is gone");
}

TEST(EngineTest, AStepThatIsAbortedAgainIsFatal) {
  EngineFixture fixture;
  fixture.gate.Fail({absl::AbortedError("busy"), absl::AbortedError("still busy")});
  ExpectFatal(fixture, "still busy");
}

TEST(EngineTest, WhatIsInFlightAtTheEndIsCancelled) {
  RecordingListener listener;
  {
    ManualClock clock;
    StepGate gate;
    Engine engine(
        EngineFixture::DefaultOptions(),
        std::make_unique<GatedRunner>(FakeRunnerOptions{.num_blocks = 64, .block_size = 4}, gate),
        listener, clock);
    ASSERT_TRUE(engine.Submit(std::make_shared<const Request>(EngineFixture::Ask(1, 5, 200))).ok());
    listener.WaitForTokens(1, 1);
  }
  const auto output = listener.OutputOf(1);
  EXPECT_TRUE(output.finish == FinishReason::kCancelled || output.tokens.size() == 200);
}

TEST(EngineTest, DrainingRefusesNewRequestsAndWaitsForTheOthers) {
  EngineFixture fixture;
  fixture.gate.Close();
  ASSERT_TRUE(fixture.Submit(EngineFixture::Ask(1, 5, 3)).ok());
  EXPECT_FALSE(fixture.engine->Drain(fixture.clock.Now()));
  EXPECT_TRUE(fixture.engine->Load().draining);
  EXPECT_FALSE(fixture.engine->Load().failed);
  EXPECT_EQ(fixture.Submit(EngineFixture::Ask(2, 5, 3)).code(), absl::StatusCode::kUnavailable);
  fixture.gate.Open();
  EXPECT_TRUE(fixture.engine->Drain(kNoDeadline));
  EXPECT_EQ(fixture.listener.OutputOf(1).tokens.size(), 3u);
}

TEST(EngineTest, ResettingTheCacheSaysWhetherItWasPossible) {
  EngineFixture fixture;
  Mutex mutex;
  std::condition_variable_any changed;
  std::vector<bool> results;
  const auto record = [&](bool done) {
    MutexLock lock(mutex);
    results.push_back(done);
    changed.notify_all();
  };
  const auto wait = [&](size_t count) {
    MutexLock lock(mutex);
    while (results.size() < count) changed.wait(mutex);
    return std::vector<bool>(results);
  };
  fixture.gate.Close();
  ASSERT_TRUE(fixture.Submit(EngineFixture::Ask(3, 21, 2)).ok());
  fixture.gate.WaitForStep();
  ASSERT_TRUE(fixture.engine->ResetPrefixCache(record).ok());
  fixture.gate.Pass(1);
  EXPECT_EQ(wait(1), std::vector<bool>({false}));
  fixture.gate.Open();
  fixture.listener.WaitForEnd(3);
  EXPECT_GT(fixture.engine->Load().num_cached_blocks, 0);
  ASSERT_TRUE(fixture.engine->ResetPrefixCache(record).ok());
  EXPECT_EQ(wait(2), std::vector<bool>({false, true}));
  EXPECT_EQ(fixture.engine->Load().num_cached_blocks, 0);
  ASSERT_TRUE(fixture.Submit(EngineFixture::Ask(6, 21, 2)).ok());
  fixture.listener.WaitForEnd(6);
  EXPECT_EQ(fixture.listener.AdmissionOf(6).num_cached_tokens, 0);
}

TEST(EngineTest, ResetsAreLimitedUntilTheyHaveTheirOutcome) {
  EngineFixture fixture;
  fixture.gate.Close();
  ASSERT_TRUE(fixture.Submit(EngineFixture::Ask(1, 5, 2)).ok());
  fixture.gate.WaitForStep();
  std::atomic<size_t> num_replies = 0;
  const auto ask = [&] { return fixture.engine->ResetPrefixCache([&](bool) { ++num_replies; }); };
  for (size_t i = 0; i < kResetsMax; ++i) ASSERT_TRUE(ask().ok());
  const absl::Status status = ask();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(MessageOf(status), HasSubstr("64"));
  EXPECT_EQ(LimitOf(status), 64);
  fixture.gate.Open();
  fixture.listener.WaitForEnd(1);
  std::promise<void> last;
  ASSERT_TRUE(fixture.engine->ResetPrefixCache([&](bool) { last.set_value(); }).ok());
  last.get_future().get();
  EXPECT_EQ(num_replies, kResetsMax);
}

TEST(EngineTest, TheHeartbeatStandsStillWhileAStepHangs) {
  EngineFixture fixture;
  fixture.clock.Advance(std::chrono::hours(1));
  EXPECT_EQ(fixture.engine->heartbeat(), fixture.clock.Now());  // idle
  fixture.gate.Close();
  ASSERT_TRUE(fixture.Submit(EngineFixture::Ask(1, 5, 2)).ok());
  fixture.gate.WaitForStep();
  const Time begin = fixture.clock.Now();
  fixture.clock.Advance(std::chrono::minutes(5));
  EXPECT_EQ(fixture.engine->heartbeat(), begin);
  fixture.gate.Open();
  EXPECT_TRUE(fixture.engine->Drain(kNoDeadline));
  fixture.listener.WaitForEnd(1);
}

TEST(EngineTest, EachStepIsAccountedFor) {
  EngineFixture fixture;
  fixture.gate.Close();
  ASSERT_TRUE(fixture.Submit(EngineFixture::Ask(1, 10, 3)).ok());
  fixture.gate.WaitForStep();
  fixture.clock.Advance(std::chrono::milliseconds(7));
  fixture.gate.Pass(1);
  fixture.gate.WaitForStep();
  const StepStats prefill = fixture.listener.last_stats();
  EXPECT_EQ(prefill.num_tokens, 10);
  EXPECT_EQ(prefill.num_prefill_tokens, 10);
  EXPECT_EQ(prefill.num_decode_tokens, 0);
  EXPECT_EQ(prefill.num_running, 1);
  EXPECT_EQ(prefill.num_used_blocks, 3);
  EXPECT_EQ(prefill.num_blocks, 64);
  EXPECT_EQ(prefill.run, std::chrono::milliseconds(7));
  EXPECT_EQ(prefill.cache.query_tokens, 10);
  EXPECT_EQ(prefill.cache.stored_blocks, 2);
  EXPECT_EQ(prefill.scheduler.services.back(), 12) << "10 prompt tokens and an output token";
  EXPECT_EQ(fixture.engine->Load().scheduler.num_active_tenants, 1);
  fixture.gate.Open();
  fixture.listener.WaitForEnd(1);
  const StepStats last = fixture.listener.last_stats();
  EXPECT_EQ(last.num_tokens, 1);
  EXPECT_EQ(last.num_decode_tokens, 1);
  EXPECT_EQ(last.num_running, 0);
  EXPECT_EQ(last.num_cached_blocks, 3);
  EXPECT_EQ(last.scheduler.services.back(), 2);
  EXPECT_EQ(fixture.engine->Load().scheduler.num_active_tenants, 0);
}

}  // namespace
}  // namespace incipit
