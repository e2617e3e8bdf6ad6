#include "server/session/text_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

namespace incipit {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A pool whose only thread waits until Release, so that a test can fill the queue.
class HeldPool {
 public:
  HeldPool(int32_t tasks_max, int64_t bytes_max, int64_t tokens_max = 1000)
      : pool_({.num_threads = 1,
               .tasks_max = tasks_max,
               .bytes_max = bytes_max,
               .tokens_max = tokens_max}) {
    const auto limit =
        pool_.Run("holder", {.num_bytes = 1}, 0, [this](std::optional<TextQueueLimit>) {
          MutexLock lock(mutex_);
          started_ = true;
          changed_.notify_all();
          while (!released_) changed_.wait(mutex_);
        });
    EXPECT_FALSE(limit.has_value());
    MutexLock lock(mutex_);
    while (!started_) changed_.wait(mutex_);
  }
  ~HeldPool() { Release(); }

  bool Add(const std::string& connection, const std::string& name, int64_t num_bytes = 1) {
    return !Limit(connection, name, {.num_bytes = num_bytes});
  }
  std::optional<TextQueueLimit> Limit(const std::string& connection, const std::string& name,
                                      const TextLoad& load, int64_t tokens_behind = 0) {
    return pool_.Run(connection, load, tokens_behind,
                     [this, name](std::optional<TextQueueLimit> limit) {
                       MutexLock lock(mutex_);
                       (limit ? displaced_ : run_).push_back(name);
                     });
  }

  // Adds a task that calls `then`. `then` may add further tasks.
  void AddThen(const std::string& connection, const std::string& name, int64_t num_bytes,
               std::function<void()> then) {
    const auto limit = pool_.Run(connection, {.num_bytes = num_bytes}, 0,
                                 [this, name, then](std::optional<TextQueueLimit>) {
                                   {
                                     MutexLock lock(mutex_);
                                     run_.push_back(name);
                                   }
                                   then();
                                 });
    EXPECT_FALSE(limit.has_value());
  }

  // Lets the thread run, and waits until all queued tasks have ended.
  void Release() {
    {
      MutexLock lock(mutex_);
      released_ = true;
    }
    changed_.notify_all();
    pool_.Stop();
  }

  std::vector<std::string> run() {
    MutexLock lock(mutex_);
    return run_;
  }
  std::vector<std::string> displaced() {
    MutexLock lock(mutex_);
    return displaced_;
  }

 private:
  Mutex mutex_;
  std::condition_variable_any changed_;
  bool started_ ABSL_GUARDED_BY(mutex_) = false;
  bool released_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::string> run_ ABSL_GUARDED_BY(mutex_), displaced_ ABSL_GUARDED_BY(mutex_);
  TextPool pool_;
};

TEST(TextPoolTest, AFullQueueTakesNoMoreAndWhatIsQueuedRuns) {
  HeldPool pool(2, 100);
  EXPECT_TRUE(pool.Add("a", "a1"));
  EXPECT_TRUE(pool.Add("a", "a2"));
  EXPECT_FALSE(pool.Add("a", "a3"));
  pool.Release();
  EXPECT_THAT(pool.run(), ElementsAre("a1", "a2"));
}

TEST(TextPoolTest, TheQueueIsBoundedInBytesTooButOneTaskAlwaysHasRoom) {
  HeldPool pool(10, 100);
  EXPECT_TRUE(pool.Add("a", "a1", 1000));
  EXPECT_FALSE(pool.Add("a", "a2", 1));
  pool.Release();

  HeldPool other(10, 100);
  EXPECT_TRUE(other.Add("a", "a1", 60));
  EXPECT_FALSE(other.Add("a", "a2", 41));
  EXPECT_TRUE(other.Add("a", "a3", 40));
  other.Release();
  EXPECT_THAT(other.run(), ElementsAre("a1", "a3"));
}

TEST(TextPoolTest, AFullQueueSaysWhichLimitIsMet) {
  HeldPool pool(2, 100);
  EXPECT_TRUE(pool.Add("a", "a1", 60));
  EXPECT_EQ(pool.Limit("a", "a2", {.num_bytes = 41}), TextQueueLimit::kBytes);
  EXPECT_TRUE(pool.Add("a", "a2", 1));
  EXPECT_EQ(pool.Limit("a", "a3", {.num_bytes = 1}), TextQueueLimit::kTasks);
}

TEST(TextPoolTest, PromptTokensInTheQueueAndBehindItAreBounded) {
  HeldPool pool(10, 100, /*tokens_max=*/50);
  EXPECT_FALSE(pool.Limit("a", "a1", {.num_tokens = 60}).has_value()) << "nothing is ahead";
  EXPECT_EQ(pool.Limit("a", "a2", {.num_tokens = 1}), TextQueueLimit::kTokens);
  EXPECT_FALSE(pool.Limit("a", "a3", {.num_tokens = 0}).has_value()) << "it adds no tokens";
  pool.Release();
  EXPECT_THAT(pool.run(), ElementsAre("a1", "a3"));

  HeldPool other(10, 100, /*tokens_max=*/50);
  EXPECT_FALSE(other.Limit("a", "a1", {.num_tokens = 20}, 10).has_value());
  EXPECT_EQ(other.Limit("a", "a2", {.num_tokens = 21}, 10), TextQueueLimit::kTokens);
  EXPECT_FALSE(other.Limit("a", "a2", {.num_tokens = 20}, 10).has_value());
  EXPECT_FALSE(other.Limit("b", "b1", {.num_tokens = 15}, 10).has_value()) << "in the place of a2";
  EXPECT_THAT(other.displaced(), ElementsAre("a2"));
  other.Release();
  EXPECT_THAT(other.run(), ElementsAre("a1", "b1"));
}

TEST(TextPoolTest, ConnectionsAreServedInTurn) {
  HeldPool pool(10, 100);
  for (const char* const name : {"a1", "a2", "a3"}) EXPECT_TRUE(pool.Add("a", name));
  EXPECT_TRUE(pool.Add("b", "b1"));
  EXPECT_TRUE(pool.Add("c", "c1"));
  EXPECT_TRUE(pool.Add("b", "b2"));
  pool.Release();
  EXPECT_THAT(pool.run(), ElementsAre("a1", "b1", "c1", "a2", "b2", "a3"));
}

TEST(TextPoolTest, ASmallTaskOfANewConnectionRunsBeforeLargeTasks) {
  constexpr int64_t kLarge = 4'000'000;
  HeldPool pool(10, 100 * kLarge);
  pool.AddThen("a", "a1", kLarge, [&pool] { EXPECT_TRUE(pool.Add("c", "c1", 100)); });
  EXPECT_TRUE(pool.Add("a", "a2", kLarge));
  pool.AddThen("b", "b1", kLarge, [&pool] { EXPECT_TRUE(pool.Add("d", "d1", 100)); });
  EXPECT_TRUE(pool.Add("b", "b2", kLarge));
  pool.Release();
  EXPECT_THAT(pool.run(), ElementsAre("a1", "c1", "b1", "d1", "a2", "b2"));
}

TEST(TextPoolTest, ManySmallTasksAndLargeTasksShareByCost) {
  HeldPool pool(100, 1'000'000);
  // The cost of a large task equals the cost of 10 empty tasks.
  for (const char* const name : {"a1", "a2"}) {
    EXPECT_TRUE(pool.Add("a", name, 9 * TextPool::kCostPerTask));
  }
  for (int i = 0; i < 30; ++i) EXPECT_TRUE(pool.Add("b", "b", 0));
  pool.Release();
  std::vector<std::string> expected(32, "b");
  expected[9] = "a1";
  expected[20] = "a2";
  EXPECT_EQ(pool.run(), expected);
}

TEST(TextPoolTest, NewConnectionsDoNotDelayALargeTaskForEver) {
  HeldPool pool(10, 1'000'000);
  for (const char* const name : {"a1", "a2"}) {
    EXPECT_TRUE(pool.Add("a", name, 9 * TextPool::kCostPerTask));
  }
  // Each task of a new connection adds a task of one more connection. So tasks of two new
  // connections wait whenever the thread is ready for the next task.
  int num_new = 0;
  std::function<void()> add = [&] {
    const std::string name = std::to_string(num_new++);
    if (num_new < 200) pool.AddThen(name, name, 0, add);
  };
  add();
  add();
  pool.Release();
  const std::vector<std::string> run = pool.run();
  ASSERT_EQ(run.size(), 201u);
  // Connection a and two new connections share the thread. A task of connection a costs as much as
  // 10 tasks of new connections. So about 20 tasks of new connections run for each task of a.
  EXPECT_LT(std::ranges::find(run, "a1") - run.begin(), 30);
  EXPECT_LT(std::ranges::find(run, "a2") - run.begin(), 60);
}

TEST(TextPoolTest, AConnectionWithASmallerPartReplacesTheLastTaskOfTheLargest) {
  HeldPool pool(4, 100);
  for (const char* const name : {"a1", "a2", "a3"}) EXPECT_TRUE(pool.Add("a", name));
  EXPECT_TRUE(pool.Add("b", "b1"));
  EXPECT_TRUE(pool.Add("b", "b2")) << "takes the place of a3";
  EXPECT_FALSE(pool.Add("b", "b3")) << "tenant b would have more tasks than tenant a";
  EXPECT_FALSE(pool.Add("a", "a4"));
  EXPECT_TRUE(pool.Add("c", "c1"));
  ASSERT_EQ(pool.displaced().size(), 2u);
  EXPECT_EQ(pool.displaced()[0], "a3");
  pool.Release();
  EXPECT_EQ(pool.run().size(), 4u);
}

TEST(TextPoolTest, LargeTasksAreDisplacedByTheBytesThatTheyHold) {
  HeldPool pool(100, 100);
  EXPECT_TRUE(pool.Add("a", "a1", 50));
  EXPECT_TRUE(pool.Add("a", "a2", 50));
  EXPECT_TRUE(pool.Add("b", "b1", 10));
  EXPECT_THAT(pool.displaced(), ElementsAre("a2"));
  pool.Release();
  EXPECT_THAT(pool.run(), ElementsAre("b1", "a1"));
}

TEST(TextPoolTest, NothingIsDisplacedForATaskThatFindsNoRoomAfterwards) {
  HeldPool pool(100, 100);
  EXPECT_TRUE(pool.Add("a", "a1", 30));
  EXPECT_TRUE(pool.Add("a", "a2", 5));
  EXPECT_TRUE(pool.Add("b", "b1", 30));
  EXPECT_TRUE(pool.Add("c", "c1", 33));
  EXPECT_TRUE(pool.Add("e", "e1", 2));
  EXPECT_FALSE(pool.Add("d", "d1", 34)) << "without task a2, no tenant has more than tenant d";
  EXPECT_THAT(pool.displaced(), IsEmpty());
  EXPECT_TRUE(pool.Add("d", "d2", 5));
  EXPECT_THAT(pool.displaced(), ElementsAre("a2"));
  pool.Release();
  EXPECT_EQ(pool.run().size(), 5u);
}

}  // namespace
}  // namespace incipit
