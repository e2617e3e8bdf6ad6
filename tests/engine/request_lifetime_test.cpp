// Tests that the engine thread never frees a request. A prompt may have megabytes, and every stream
// would wait while the prompt is freed.
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "base/status.h"
#include "tests/engine/engine_fixture.h"

namespace incipit {
namespace {

// Counts the freed requests and records the thread that freed each request. Thread-safe.
class FreedRequests {
 public:
  std::shared_ptr<const Request> Watch(Request request) {
    return {new Request(std::move(request)), [this](const Request* freed) {
              delete freed;
              MutexLock lock(mutex_);
              threads_.push_back(std::this_thread::get_id());
            }};
  }
  std::vector<std::thread::id> threads() {
    MutexLock lock(mutex_);
    return threads_;
  }

 private:
  Mutex mutex_;
  std::vector<std::thread::id> threads_ ABSL_GUARDED_BY(mutex_);
};

// Runs each test with one step in flight and with two steps in flight.
class RequestLifetimeTest : public testing::TestWithParam<int32_t> {
 protected:
  static EngineOptions Options() {
    EngineOptions options = EngineFixture::DefaultOptions();
    options.scheduler.steps_in_flight_max = GetParam();
    return options;
  }
  void Start(const EngineOptions& options = Options()) {
    fixture_ = std::make_unique<EngineFixture>(options, GetParam() == 2);
    std::promise<std::thread::id> id;
    ASSERT_TRUE(
        fixture_->engine->ResetPrefixCache([&](bool) { id.set_value(std::this_thread::get_id()); })
            .ok());
    engine_thread_ = id.get_future().get();
  }
  absl::Status Submit(Request request) {
    ++num_asked_;
    return fixture_->engine->Submit(freed_.Watch(std::move(request)));
  }
  // Expects that all requests were freed, at the latest with the engine, and no request by the
  // engine thread.
  void ExpectFreedElsewhere() {
    fixture_.reset();
    const auto threads = freed_.threads();
    EXPECT_EQ(std::ssize(threads), num_asked_);
    EXPECT_EQ(std::ranges::count(threads, engine_thread_), 0);
  }

  // Declared first, because the requests of the engine report to `freed_` when they are freed.
  FreedRequests freed_;
  std::unique_ptr<EngineFixture> fixture_;
  std::thread::id engine_thread_;
  int64_t num_asked_ = 0;
};

INSTANTIATE_TEST_SUITE_P(StepsInFlight, RequestLifetimeTest, testing::Values(1, 2));

TEST_P(RequestLifetimeTest, WhatHasEndedIsFreedByTheThreadThatSubmitsNext) {
  Start();
  for (uint64_t id = 1; id <= 5; ++id) {
    Request request = EngineFixture::Ask(id, 40, 4);
    request.num_choices = id == 2 ? 3 : 1;
    ASSERT_TRUE(Submit(request).ok());
    fixture_->listener.WaitForEnd(id, request.num_choices);
    // With two steps in flight, a step may still compute for a request that has ended.
    if (GetParam() == 1) {
      EXPECT_EQ(freed_.threads(), std::vector(id - 1, std::this_thread::get_id()));
    }
  }
  ExpectFreedElsewhere();
}

TEST_P(RequestLifetimeTest, CancelledRequests) {
  EngineOptions options = Options();
  options.scheduler.running_max = 1;
  Start(options);
  fixture_->gate.Close();
  for (const uint64_t id : {1, 2, 3}) ASSERT_TRUE(Submit(EngineFixture::Ask(id, 9, 100)).ok());
  fixture_->gate.WaitForStep();
  for (const uint64_t id : {1, 2, 3}) fixture_->engine->Cancel(RequestId{id});
  fixture_->gate.Open();
  for (const uint64_t id : {1, 2, 3}) fixture_->listener.WaitForEnd(id);
  ExpectFreedElsewhere();
}

TEST_P(RequestLifetimeTest, PreemptedRequests) {
  EngineOptions options = Options();
  options.cache.num_blocks = 5;
  Start(options);
  fixture_->gate.Close();
  for (const uint64_t id : {1, 2}) ASSERT_TRUE(Submit(EngineFixture::Ask(id, 7, 10)).ok());
  fixture_->gate.Open();
  for (const uint64_t id : {1, 2}) fixture_->listener.WaitForEnd(id);
  EXPECT_GT(fixture_->listener.num_preemptions(), 0);
  ExpectFreedElsewhere();
}

TEST_P(RequestLifetimeTest, RequestsPastTheirDeadline) {
  EngineOptions options = Options();
  options.scheduler.running_max = 1;
  Start(options);
  fixture_->gate.Close();
  for (const uint64_t id : {1, 2}) {
    Request request = EngineFixture::Ask(id, 9, 100);
    request.deadline = fixture_->clock.Now() + std::chrono::milliseconds(50);
    ASSERT_TRUE(Submit(std::move(request)).ok());
  }
  fixture_->gate.WaitForStep();
  fixture_->clock.Advance(std::chrono::milliseconds(60));
  fixture_->gate.Open();
  for (const uint64_t id : {1, 2}) fixture_->listener.WaitForEnd(id);
  ExpectFreedElsewhere();
}

TEST_P(RequestLifetimeTest, RequestsWhoseValuesAreNotFinite) {
  const EngineOptions options = Options();
  Start(options);
  auto runner = std::make_unique<FakeRunner>(FakeRunnerOptions{
      .num_blocks = options.cache.num_blocks, .block_size = options.cache.block_size});
  runner->PoisonNextStep(0);
  auto& engine = fixture_->engine;
  engine =
      std::make_unique<Engine>(options, std::move(runner), fixture_->listener, fixture_->clock);
  std::promise<std::thread::id> id;
  ASSERT_TRUE(
      engine->ResetPrefixCache([&](bool) { id.set_value(std::this_thread::get_id()); }).ok());
  engine_thread_ = id.get_future().get();
  ASSERT_TRUE(Submit(EngineFixture::Ask(1, 9, 5)).ok());
  fixture_->listener.WaitForEnd(1);
  EXPECT_EQ(fixture_->listener.OutputOf(1).finish, FinishReason::kError);
  ExpectFreedElsewhere();
}

TEST_P(RequestLifetimeTest, RequestsOfADeviceThatFails) {
  Start();
  fixture_->gate.Close();
  fixture_->gate.Fail({absl::OkStatus(), absl::InternalError("the device is gone")});
  for (const uint64_t id : {1, 2}) ASSERT_TRUE(Submit(EngineFixture::Ask(id, 9, 100)).ok());
  fixture_->gate.Open();
  EXPECT_FALSE(fixture_->listener.WaitForFatal().ok());
  EXPECT_FALSE(Submit(EngineFixture::Ask(3, 9, 5)).ok());
  ExpectFreedElsewhere();
}

TEST_P(RequestLifetimeTest, RequestsOfAnEngineThatIsDestroyed) {
  Start();
  for (const uint64_t id : {1, 2}) ASSERT_TRUE(Submit(EngineFixture::Ask(id, 9, 200)).ok());
  fixture_->listener.WaitForTokens(1, 1);
  ASSERT_TRUE(Submit(EngineFixture::Ask(3, 9, 200)).ok());
  ExpectFreedElsewhere();
}

TEST_P(RequestLifetimeTest, PreviewsAndWhatIsRefused) {
  Start();
  for (const uint64_t id : {1, 2}) {
    ++num_asked_;
    std::promise<void> replied;
    ASSERT_TRUE(fixture_->engine
                    ->PreviewAdmission(freed_.Watch(EngineFixture::Ask(id, 9, 5)),
                                       [&](const AdmissionPreview&) { replied.set_value(); })
                    .ok());
    replied.get_future().get();
  }
  EXPECT_FALSE(Submit(EngineFixture::Ask(3, 0, 5)).ok());
  ExpectFreedElsewhere();
}

}  // namespace
}  // namespace incipit
