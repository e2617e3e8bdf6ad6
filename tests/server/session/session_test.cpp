// Tests a session with a real engine and with an output sink in memory, without protocol and
// socket.
#include "server/session/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "server/session/request/request_error.h"
#include "server/session/session_starter.h"
#include "tests/support/fake_runner.h"

namespace incipit {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

constexpr int32_t kVocab = 100;
constexpr int32_t kBlocks = 16'384;

// Stores the output that it receives. If `takes_at_once` is true, the sink reports at once that the
// output was delivered. Otherwise the test reports the delivery.
class MemorySink final : public OutputSink {
 public:
  explicit MemorySink(bool takes_at_once = true) : takes_at_once_(takes_at_once) {}

  void Attach(std::shared_ptr<Session> session) { session_ = session; }
  void Deliver(OutputPart part) override {
    {
      MutexLock lock(mutex_);
      parts_.push_back(std::move(part));
    }
    changed_.notify_all();
    if (takes_at_once_) session_.lock()->OnDelivered(true);
  }
  void End(const absl::Status& status) override {
    {
      MutexLock lock(mutex_);
      EXPECT_FALSE(end_.has_value());
      end_ = status;
    }
    changed_.notify_all();
  }
  void Reset() override {
    session_.lock()->OnCancelled();
    session_.lock()->OnDelivered(false);
  }

  void TakeAtOnce() { takes_at_once_ = true; }
  absl::Status AwaitEnd() {
    MutexLock lock(mutex_);
    while (!end_) changed_.wait(mutex_);
    return *end_;
  }
  void AwaitParts(size_t num_parts) {
    MutexLock lock(mutex_);
    while (parts_.size() < num_parts) changed_.wait(mutex_);
  }
  std::vector<OutputPart> parts() {
    MutexLock lock(mutex_);
    return parts_;
  }

 private:
  std::atomic<bool> takes_at_once_;
  std::weak_ptr<Session> session_;
  Mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<OutputPart> parts_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
};

class SessionTest : public ::testing::Test {
 protected:
  static constexpr int32_t kRequestsMax = 2;

  explicit SessionTest(int64_t output_queue_bytes_max = 1 << 30,
                       int32_t engine_requests_max = kRequestsMax) {
    model_.name = "fake";
    model_.vocab_size = kVocab;
    model_.max_model_len = 200'000;
    model_.cache_tokens = int64_t{kBlocks} * 16;
    options_.requests_max = kRequestsMax;
    EngineOptions engine;
    engine.cache.num_blocks = kBlocks;
    engine.requests_max = engine_requests_max;
    dispatcher_ = std::make_unique<TokenDispatcher>(
        DispatcherOptions{.write_stall_timeout = std::chrono::seconds(60),
                          .output_queue_bytes_max = output_queue_bytes_max},
        clock_, metrics_);
    engine_ =
        std::make_unique<Engine>(engine,
                                 std::make_unique<FakeRunner>(FakeRunnerOptions{
                                     .num_blocks = kBlocks, .block_size = 16, .vocab = kVocab}),
                                 *dispatcher_, clock_);
    dispatcher_->Attach(*engine_);
    starter_ = std::make_unique<SessionStarter>(SessionContext{
        options_, model_, encoder_, *engine_, *dispatcher_, pool_, requests_, metrics_, clock_});
  }
  ~SessionTest() override {
    pool_.Stop();
    dispatcher_->Stop();
    engine_.reset();
  }

  static RequestDraft Draft(uint32_t num_tokens) {
    RequestDraft draft;
    draft.prompt = TokensDraft{1, 2, 3};
    draft.output.max_tokens = num_tokens;
    draft.sampling.temperature = 0;
    return draft;
  }

  std::shared_ptr<Session> Start(const std::shared_ptr<MemorySink>& sink, RequestDraft draft) {
    const Time now = clock_.Now();
    auto session = std::make_shared<Session>(sink, clock_, now, now + std::chrono::minutes(5));
    sink->Attach(session);
    starter_->Start(
        session, {.connection = "test", .tenant = "default"}, [] { return PromptEstimate(); },
        [draft = std::move(draft)] { return draft; });
    return session;
  }

  Options options_;
  ServedModel model_;
  const SteadyClock clock_;
  Metrics metrics_{{}};
  std::unique_ptr<TokenDispatcher> dispatcher_;
  std::unique_ptr<Engine> engine_;
  TextPool pool_{{.num_threads = 1, .tasks_max = 8, .bytes_max = 1 << 20}};
  const PromptEncoder encoder_{nullptr, nullptr, false};
  RequestCounter requests_{kRequestsMax};
  std::unique_ptr<SessionStarter> starter_;
};

TEST_F(SessionTest, TheSinkReceivesEveryTokenOnceAndTheUsageLast) {
  const auto sink = std::make_shared<MemorySink>();
  const auto session = Start(sink, Draft(20));
  EXPECT_TRUE(sink->AwaitEnd().ok());
  OutputMerger merger;
  bool has_usage = false;
  for (OutputPart& part : sink->parts()) {
    EXPECT_FALSE(has_usage) << "a part was delivered after the last part";
    has_usage = part.usage.has_value();
    merger.Add(std::move(part));
  }
  const OutputPart all = merger.Take();
  ASSERT_THAT(all.deltas, SizeIs(1));
  EXPECT_THAT(all.deltas[0].tokens, SizeIs(20));
  EXPECT_EQ(all.deltas[0].finish, FinishReason::kLength);
  ASSERT_TRUE(all.usage.has_value());
  EXPECT_EQ(all.usage->num_prompt_tokens, 3);
  EXPECT_EQ(all.usage->num_output_tokens, 20);
  EXPECT_THAT(session->label(), SizeIs(16));
}

TEST_F(SessionTest, WhatASlowClientDoesNotTakeIsMergedIntoOnePart) {
  const auto sink = std::make_shared<MemorySink>(/*takes_at_once=*/false);
  const auto session = Start(sink, Draft(20'000));  // the output is larger than the first part
  sink->AwaitParts(1);
  while (requests_.count() > 0) {  // the engine continues although the client takes no output
  }
  EXPECT_THAT(sink->parts(), SizeIs(1));
  sink->TakeAtOnce();
  session->OnDelivered(true);
  EXPECT_TRUE(sink->AwaitEnd().ok());
  const std::vector<OutputPart> parts = sink->parts();
  EXPECT_LE(parts.size(), 3u) << "the first part, the merged rest, and perhaps the usage alone";
  size_t num_tokens = 0;
  for (const OutputPart& part : parts) {
    for (const OutputDelta& delta : part.deltas) num_tokens += delta.tokens.size();
  }
  EXPECT_EQ(num_tokens, 20'000u);
}

TEST_F(SessionTest, AnErrorSaysReasonFieldAndBoundInNoProtocolsTerms) {
  const auto sink = std::make_shared<MemorySink>();
  RequestDraft draft = Draft(1);
  draft.output.num_choices = 17;
  Start(sink, std::move(draft));
  const RequestError error = ErrorOf(sink->AwaitEnd());
  EXPECT_EQ(error.reason, Reason::kInvalidField);
  EXPECT_EQ(error.field, "output.n");
  EXPECT_EQ(error.bound, 16);
  EXPECT_EQ(requests_.count(), 0);
}

TEST_F(SessionTest, ACancelledSessionEndsInTheEngineToo) {
  const auto sink = std::make_shared<MemorySink>(/*takes_at_once=*/false);
  const auto session = Start(sink, Draft(150'000));
  sink->AwaitParts(1);
  session->OnCancelled();
  session->OnDelivered(false);
  EXPECT_EQ(sink->AwaitEnd().code(), absl::StatusCode::kCancelled);
  while (engine_->Load().num_used_blocks > 0 || requests_.count() > 0) {
  }
  EXPECT_THAT(sink->parts(), SizeIs(1));
}

TEST_F(SessionTest, MoreRequestsThanRequestsMaxAreRefusedBeforeAnyoneReadsThem) {
  std::vector<RequestCounter::Slot> slots;
  for (int i = 0; i < 2; ++i) slots.push_back(*requests_.Take());
  const auto sink = std::make_shared<MemorySink>();
  const Time now = clock_.Now();
  const auto session = std::make_shared<Session>(sink, clock_, now, now + std::chrono::hours(1));
  bool was_read = false;
  starter_->Start(
      session, {.connection = "test", .tenant = "default"},
      [&] {
        was_read = true;
        return PromptEstimate();
      },
      [&]() -> absl::StatusOr<RequestDraft> {
        was_read = true;
        return Draft(1);
      });
  const RequestError error = ErrorOf(sink->AwaitEnd());
  EXPECT_EQ(error.reason, Reason::kQueueFull);
  EXPECT_EQ(error.bound, 2);
  EXPECT_TRUE(error.retry_delay.has_value());
  EXPECT_FALSE(was_read);
}

TEST_F(SessionTest, OutputThatIsNotTakenUntilTheDeadlineIsDropped) {
  const auto sink = std::make_shared<MemorySink>(/*takes_at_once=*/false);
  const Time now = clock_.Now();
  const auto session = std::make_shared<Session>(sink, clock_, now, now + std::chrono::seconds(10));
  sink->Attach(session);
  OutputPart part;
  part.DeltaOf(0).text = "a";
  session->Write(part);
  session->Write(part);
  session->End(absl::OkStatus());
  StallWatch watch(std::chrono::seconds(60));
  watch.AddEnded(session, /*is_abandoned=*/false);
  watch.CheckEnded(now + std::chrono::seconds(10));
  session->OnDelivered(true);
  EXPECT_EQ(ErrorOf(sink->AwaitEnd()).reason, Reason::kDeadline);
  EXPECT_THAT(sink->parts(), SizeIs(1)) << "the part in flight";
}

TEST_F(SessionTest, APromptThatIsTooLongAtLeastIsRefusedBeforeAnyoneReadsIt) {
  const auto sink = std::make_shared<MemorySink>();
  const Time now = clock_.Now();
  const auto session = std::make_shared<Session>(sink, clock_, now, now + std::chrono::hours(1));
  starter_->Start(
      session, {.connection = "test", .tenant = "default"},
      [] { return PromptEstimate{.num_tokens_min = 200'001, .field = "text"}; },
      [&]() -> absl::StatusOr<RequestDraft> {
        ADD_FAILURE() << "it was read";
        return Draft(1);
      });
  const RequestError error = ErrorOf(sink->AwaitEnd());
  EXPECT_EQ(error.reason, Reason::kPromptTooLong);
  EXPECT_EQ(error.field, "text");
}

TEST_F(SessionTest, WaitingOutputIsCountedUntilItIsReadOrDiscarded) {
  RequestDraft draft = Draft(1000);
  draft.output.logprobs = 20;  // makes the output so large that it has several parts
  for (const bool reads : {true, false}) {
    EXPECT_EQ(dispatcher_->num_waiting_bytes(), 0);
    const auto sink = std::make_shared<MemorySink>(/*takes_at_once=*/false);
    const auto session = Start(sink, draft);
    while (dispatcher_->num_waiting_bytes() == 0) {
    }
    if (reads) {
      sink->TakeAtOnce();
    } else {
      session->OnCancelled();
    }
    session->OnDelivered(true);
    const absl::Status end = sink->AwaitEnd();
    EXPECT_TRUE(end.ok() || !reads) << end;
    EXPECT_EQ(dispatcher_->num_waiting_bytes(), 0);
  }
}

TEST_F(SessionTest, AReadingClientLeavesNothingThatWaits) {
  const auto sink = std::make_shared<MemorySink>();
  Start(sink, Draft(1000));
  EXPECT_TRUE(sink->AwaitEnd().ok());
  EXPECT_EQ(dispatcher_->num_waiting_bytes(), 0);
}

class FullEngineTest : public SessionTest {
 protected:
  FullEngineTest() : SessionTest(1 << 30, /*engine_requests_max=*/0) {}
};

TEST_F(FullEngineTest, TheBoundOfARefusalIsTheLimitThatTheEngineReached) {
  const auto sink = std::make_shared<MemorySink>();
  const auto session = Start(sink, Draft(1));
  const RequestError error = ErrorOf(sink->AwaitEnd());
  EXPECT_EQ(error.reason, Reason::kQueueFull);
  EXPECT_EQ(error.message, "too many requests: 0 are waiting or running; the limit is 0");
  EXPECT_EQ(error.bound, 0);
  EXPECT_TRUE(error.retry_delay.has_value());
}

class OutputQueueTest : public SessionTest {
 protected:
  OutputQueueTest() : SessionTest(/*output_queue_bytes_max=*/100'000) {}
};

TEST_F(OutputQueueTest, TheCallWithTheMostWaitingOutputIsEnded) {
  const auto small = std::make_shared<MemorySink>(/*takes_at_once=*/false);
  const auto large = std::make_shared<MemorySink>(/*takes_at_once=*/false);
  const auto small_session = Start(small, Draft(1000));
  while (requests_.count() > 0) {  // the request ends although its client takes no output
  }
  const auto large_session = Start(large, Draft(150'000));
  large->AwaitParts(1);
  while (requests_.count() > 0) {
  }
  for (const auto& [sink, session] :
       {std::pair(small, small_session), std::pair(large, large_session)}) {
    sink->TakeAtOnce();
    session->OnDelivered(true);
  }
  EXPECT_TRUE(small->AwaitEnd().ok());
  const RequestError error = ErrorOf(large->AwaitEnd());
  EXPECT_EQ(error.reason, Reason::kWriteStalled);
  EXPECT_EQ(error.bound, 100'000);
  EXPECT_THAT(large->parts(), SizeIs(1)) << "only the part that was in flight is delivered";
  EXPECT_EQ(dispatcher_->num_waiting_bytes(), 0);
}

}  // namespace
}  // namespace incipit
