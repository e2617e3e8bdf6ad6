// Tests the events of the prefix cache that the engine reports to a listener.
#include <gtest/gtest.h>

#include <future>
#include <random>
#include <set>

#include "tests/engine/engine_fixture.h"
#include "tests/support/event_mirror.h"

namespace incipit {
namespace {

constexpr size_t kBlockSize = 4;

// Rebuilds the contents of the cache from the events. Thread-safe.
class MirrorListener final : public KvEventListener {
 public:
  void OnKvEvents(const KvEvents& events) override {
    MutexLock lock(mutex_);
    is_consistent_ &= mirror_.Apply(events, kBlockSize);
    for (const KvEvent& event : events.events) {
      num_parts_ += event.kind == KvEvent::Kind::kMoreCached;
      num_complete_ += event.kind == KvEvent::Kind::kComplete;
      num_cleared_ += event.kind == KvEvent::Kind::kCleared;
    }
    changed_.notify_all();
  }

  // Reads all events that `engine` has emitted, and all blocks that were cached before the listener
  // was added.
  void Read(Engine& engine) {
    for (bool is_complete = false; !is_complete;) {
      const int before = num_marks();
      engine.ReportCached();
      MutexLock lock(mutex_);
      while (num_parts_ + num_complete_ == before) changed_.wait(mutex_);
      is_complete = mirror_.is_complete();
    }
  }
  void WaitForCleared(int count) {
    MutexLock lock(mutex_);
    while (num_cleared_ < count) changed_.wait(mutex_);
  }
  std::set<std::vector<TokenId>> Prefixes() {
    MutexLock lock(mutex_);
    EXPECT_TRUE(is_consistent_);
    std::set<std::vector<TokenId>> prefixes;
    for (const auto& [key, tokens] : mirror_.prefixes()) prefixes.insert(tokens);
    return prefixes;
  }
  int num_parts() {
    MutexLock lock(mutex_);
    return num_parts_;
  }

 private:
  int num_marks() {
    MutexLock lock(mutex_);
    return num_parts_ + num_complete_;
  }

  Mutex mutex_;
  std::condition_variable_any changed_;
  EventMirror mirror_ ABSL_GUARDED_BY(mutex_);
  bool is_consistent_ ABSL_GUARDED_BY(mutex_) = true;
  int num_parts_ ABSL_GUARDED_BY(mutex_) = 0, num_complete_ ABSL_GUARDED_BY(mutex_) = 0;
  int num_cleared_ ABSL_GUARDED_BY(mutex_) = 0;
};

// The listeners exist longer than the engine.
struct CacheEventsFixture {
  explicit CacheEventsFixture(EngineOptions options = EngineFixture::DefaultOptions(),
                              bool asynchronous = false)
      : fixture(options, asynchronous) {}

  void Run(Request request) {
    const auto id = static_cast<uint64_t>(request.id);
    const int32_t choices = request.num_choices;
    ASSERT_TRUE(fixture.Submit(std::move(request)).ok());
    fixture.listener.WaitForEnd(id, choices);
  }
  Engine& engine() { return *fixture.engine; }

  MirrorListener listener, late_listener;
  EngineFixture fixture;
};

// Returns the prefixes of `tokens` that end at a block boundary.
std::set<std::vector<TokenId>> BlocksOf(const std::vector<TokenId>& tokens) {
  std::set<std::vector<TokenId>> prefixes;
  for (size_t size = kBlockSize; size <= tokens.size(); size += kBlockSize) {
    prefixes.emplace(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(size));
  }
  return prefixes;
}

// Returns the tokens of `request` whose keys and values the model computes: the prompt and all
// output tokens except the last.
std::vector<TokenId> ComputedTokens(const Request& request) {
  std::vector<TokenId> tokens = request.prompt;
  const auto output = EngineFixture::Expected(request);
  tokens.insert(tokens.end(), output.begin(), output.end() - 1);
  return tokens;
}

TEST(CacheEventsTest, AListenerReceivesTheBlocksOfPromptsAndOutputs) {
  CacheEventsFixture test;
  test.engine().ListenToCache(&test.listener);
  const Request request = EngineFixture::Ask(1, 9, 9);
  test.Run(request);
  test.listener.Read(test.engine());
  EXPECT_EQ(test.listener.Prefixes(), BlocksOf(ComputedTokens(request)));
}

TEST(CacheEventsTest, ALateListenerReadsTheCachedBlocksWhileTheEngineIsIdle) {
  CacheEventsFixture test;
  const Request request = EngineFixture::Ask(1, 9, 9);
  test.Run(request);
  test.engine().ListenToCache(&test.listener);
  test.listener.Read(test.engine());
  EXPECT_EQ(test.listener.Prefixes(), BlocksOf(ComputedTokens(request)));
}

TEST(CacheEventsTest, ALargeCacheIsReportedInParts) {
  EngineOptions options = EngineFixture::DefaultOptions();
  options.cache.num_blocks = 2000;
  options.scheduler.step_tokens_max = 4096;
  CacheEventsFixture test(options);
  test.Run(EngineFixture::Ask(1, 4001, 1));
  test.engine().ListenToCache(&test.listener);
  test.listener.Read(test.engine());
  EXPECT_EQ(test.listener.Prefixes().size(), 1000u);
  EXPECT_GT(test.listener.num_parts(), 3);
}

TEST(CacheEventsTest, AResetOfTheCacheClearsTheListener) {
  CacheEventsFixture test;
  test.engine().ListenToCache(&test.listener);
  test.Run(EngineFixture::Ask(1, 9, 1));
  std::promise<bool> done;
  ASSERT_TRUE(test.engine().ResetPrefixCache([&](bool ok) { done.set_value(ok); }).ok());
  EXPECT_TRUE(done.get_future().get());
  test.listener.WaitForCleared(1);
  EXPECT_TRUE(test.listener.Prefixes().empty());
}

TEST(CacheEventsTest, BlocksWithATenantOrASaltAreNotReported) {
  CacheEventsFixture test;
  test.engine().ListenToCache(&test.listener);
  Request request = EngineFixture::Ask(1, 9, 9);
  request.cache_namespace = MakeCacheNamespace("tenant", "");
  test.Run(request);
  request.id = RequestId{2};
  request.cache_namespace = MakeCacheNamespace(std::nullopt, "salt");
  test.Run(request);
  test.listener.Read(test.engine());
  EXPECT_TRUE(test.listener.Prefixes().empty());
  test.engine().ListenToCache(&test.late_listener);
  test.late_listener.Read(test.engine());
  EXPECT_TRUE(test.late_listener.Prefixes().empty());
}

TEST(CacheEventsTest, WithoutAListenerTheEngineReportsNothing) {
  CacheEventsFixture test;
  test.engine().ReportCached();
  test.engine().ListenToCache(&test.listener);
  test.listener.Read(test.engine());
  test.engine().ListenToCache(nullptr);
  test.Run(EngineFixture::Ask(1, 9, 9));
  EXPECT_TRUE(test.listener.Prefixes().empty());
}

// Requests with a few different prompts run at the same time, share blocks, evict each other's
// blocks, and are cancelled.
TEST(CacheEventsTest, AfterManyRequestsAnEarlyAndALateListenerKnowTheSameBlocks) {
  for (const int32_t steps_in_flight : {1, 2}) {
    EngineOptions options = EngineFixture::DefaultOptions();
    options.scheduler.steps_in_flight_max = steps_in_flight;
    options.cache.num_blocks = 24;
    CacheEventsFixture test(options, steps_in_flight == 2);
    test.engine().ListenToCache(&test.listener);
    std::minstd_rand random(7);
    for (uint64_t id = 1; id <= 300; ++id) {
      Request request;
      request.id = RequestId{id};
      const size_t length = 1 + random() % 30;
      while (request.prompt.size() < length) {
        request.prompt.push_back(static_cast<TokenId>(random() % 8 == 0));
      }
      request.output_tokens_max = 1 + static_cast<int32_t>(random() % 12);
      request.num_choices = 1 + static_cast<int32_t>(random() % 2);
      if (random() % 4 == 0) request.cache_namespace = MakeCacheNamespace(std::nullopt, "salt");
      const int32_t choices = request.num_choices;
      ASSERT_TRUE(test.fixture.Submit(std::move(request)).ok());
      if (random() % 5 == 0) test.engine().Cancel(RequestId{id});
      if (random() % 3 == 0) test.fixture.listener.WaitForEnd(id, choices);
    }
    ASSERT_TRUE(test.engine().Drain(kNoDeadline));
    test.listener.Read(test.engine());
    test.engine().ListenToCache(&test.late_listener);
    test.late_listener.Read(test.engine());
    EXPECT_FALSE(test.listener.Prefixes().empty());
    EXPECT_EQ(test.listener.Prefixes(), test.late_listener.Prefixes());
  }
}

}  // namespace
}  // namespace incipit
