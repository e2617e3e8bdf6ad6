// Tests requests that share a prefix and arrive together. The prefix must be computed once, even if
// the sequence that computes it is preempted or cancelled, or if a step fails. Every test counts
// the tokens of committed steps exactly.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "base/status.h"
#include "tests/scheduler/scheduler_fixture.h"

namespace incipit {
namespace {

constexpr int32_t kBurstBlock = 16;
// Number of prompt tokens in full blocks.
constexpr int32_t kShared = 48;
// Number of prompt tokens. The last 2 tokens are in a block that is not full, so no lookup finds
// them.
constexpr int32_t kPrompt = 50;
constexpr int32_t kRest = kPrompt - kShared;

class Burst : public SchedulerFixture {
 public:
  explicit Burst(int32_t step_tokens_max, KvCacheOptions cache = Roomy(), int32_t running_max = 64)
      : SchedulerFixture(cache, {.step_tokens_max = step_tokens_max, .running_max = running_max}) {}

  static KvCacheOptions Roomy() { return {.num_blocks = 1024, .block_size = kBurstBlock}; }
  // Returns a request for one output token. The first `num_shared` prompt tokens are equal in all
  // requests.
  static Request Ask(uint64_t id, int32_t num_shared = kPrompt, int32_t num_own = 0) {
    Request request;
    request.id = RequestId{id};
    for (int32_t i = 0; i < num_shared; ++i) request.prompt.push_back(i % 47);
    for (int32_t i = 0; i < num_own; ++i) {
      request.prompt.push_back(static_cast<TokenId>((id * 7 + static_cast<uint64_t>(i) + 1) % 47));
    }
    request.output_tokens_max = 1;
    return request;
  }
  void AddMany(uint64_t first_id, int32_t count) {
    for (int32_t i = 0; i < count; ++i) Add(Ask(first_id + static_cast<uint64_t>(i)));
  }

  void PlanAndCommit() {
    const Shares shares = Plan();
    if (shares.empty()) return;
    Run();
    for (const auto& [id, num_tokens] : shares) computed[id] += num_tokens;
  }
  void PlanAndAbort() {
    Plan();
    scheduler.Abort(plan);
    Collect();
  }
  void CommitToTheEnd() {
    while (!scheduler.idle()) PlanAndCommit();
  }
  int32_t num_computed() const {
    return std::accumulate(computed.begin(), computed.end(), 0,
                           [](int32_t sum, const auto& entry) { return sum + entry.second; });
  }
  // Checks that the output is equal to the output of the same request without other requests.
  void ExpectOutput(const Request& request) {
    Burst alone(4096);
    alone.Add(request);
    alone.CommitToTheEnd();
    const auto id = static_cast<uint64_t>(request.id);
    EXPECT_EQ(OutputOf(id).tokens, alone.OutputOf(id).tokens) << "request " << id;
  }

  std::map<uint64_t, int32_t> computed;  // number of computed tokens, by request id
};

// Parameters: the number of requests, and the maximum number of tokens in a step.
class BurstTest : public testing::TestWithParam<std::tuple<int32_t, int32_t>> {
 protected:
  int32_t num_requests() const { return std::get<0>(GetParam()); }
  int32_t budget() const { return std::get<1>(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(Sizes, BurstTest,
                         testing::Combine(testing::Values(2, 8, 64),
                                          testing::Values(4096, 60, 24, 3)));

TEST_P(BurstTest, IdenticalPromptsComputeTheirFullBlocksOnce) {
  Burst burst(budget());
  burst.AddMany(1, num_requests());
  burst.CommitToTheEnd();
  EXPECT_EQ(burst.num_computed(), kPrompt + (num_requests() - 1) * kRest);
  EXPECT_EQ(burst.computed[1], kPrompt);
  for (int32_t id = 1; id <= num_requests(); ++id) burst.ExpectOutput(Burst::Ask(id));
  const KvCacheStats stats = burst.cache.TakeStats();
  EXPECT_EQ(stats.queries, num_requests());
  EXPECT_EQ(stats.hit_tokens, (num_requests() - 1) * kShared);
  EXPECT_EQ(stats.stored_blocks, kShared / kBurstBlock);
}

TEST_P(BurstTest, PromptsThatShareAPrefixComputeItOnce) {
  Burst burst(budget());
  constexpr int32_t kAlike = 53, kOwn = 8;
  for (int32_t id = 1; id <= num_requests(); ++id) burst.Add(Burst::Ask(id, kAlike, kOwn));
  burst.CommitToTheEnd();
  EXPECT_EQ(burst.num_computed(), kAlike + kOwn + (num_requests() - 1) * (kAlike + kOwn - kShared));
  for (int32_t id = 1; id <= num_requests(); ++id) {
    burst.ExpectOutput(Burst::Ask(id, kAlike, kOwn));
  }
}

TEST_P(BurstTest, TheLastToArriveMayBeTheFirstToCompute) {
  Burst burst(budget());
  for (int32_t id = 1; id <= num_requests(); ++id) {
    Request request = Burst::Ask(id);
    request.priority = id;
    burst.Add(request);
  }
  burst.CommitToTheEnd();
  EXPECT_EQ(burst.num_computed(), kPrompt + (num_requests() - 1) * kRest);
  EXPECT_EQ(burst.computed[num_requests()], kPrompt);
}

TEST_P(BurstTest, ARequestOfHigherPriorityThatArrivesHalfWayWaitsForTheFirst) {
  Burst burst(budget());
  burst.Add(Burst::Ask(1));
  burst.PlanAndCommit();
  for (int32_t id = 2; id <= num_requests(); ++id) {
    Request request = Burst::Ask(id);
    request.priority = 1;
    burst.Add(request);
  }
  burst.CommitToTheEnd();
  EXPECT_EQ(burst.num_computed(), kPrompt + (num_requests() - 1) * kRest);
  EXPECT_EQ(burst.computed[1], kPrompt);
}

TEST_P(BurstTest, WithFewSlotsToRunTheOthersFindWhatIsLeft) {
  Burst burst(budget(), Burst::Roomy(), 2);
  burst.AddMany(1, num_requests());
  burst.CommitToTheEnd();
  EXPECT_EQ(burst.num_computed(), kPrompt + (num_requests() - 1) * kRest);
}

TEST_P(BurstTest, AStepThatFailsIsDoneAgain) {
  for (const int32_t failing_step : {0, 1, 2}) {
    Burst burst(budget());
    burst.AddMany(1, num_requests());
    for (int32_t step = 0; step < failing_step; ++step) burst.PlanAndCommit();
    if (burst.scheduler.idle()) continue;
    burst.PlanAndAbort();
    burst.PlanAndAbort();
    burst.CommitToTheEnd();
    EXPECT_EQ(burst.num_computed(), kPrompt + (num_requests() - 1) * kRest)
        << "failing step " << failing_step;
    for (int32_t id = 1; id <= num_requests(); ++id) burst.ExpectOutput(Burst::Ask(id));
    EXPECT_EQ(burst.cache.TakeStats().queries, num_requests());
  }
}

TEST_P(BurstTest, ARequestForPromptLogprobsComputesAllAndSharesIt) {
  Burst burst(budget());
  Request first = Burst::Ask(1);
  first.prompt_logprobs = 1;
  burst.Add(first);
  burst.AddMany(2, num_requests() - 1);
  burst.CommitToTheEnd();
  EXPECT_EQ(burst.num_computed(), kPrompt + (num_requests() - 1) * kRest);
  EXPECT_EQ(burst.scored[1].size(), static_cast<size_t>(kPrompt - 1));
}

TEST_P(BurstTest, ARequestForPromptLogprobsInTheMiddleReadsNothing) {
  Burst burst(budget());
  burst.Add(Burst::Ask(1));
  Request second = Burst::Ask(2);
  second.prompt_logprobs = 0;
  burst.Add(second);
  burst.AddMany(3, num_requests() - 2);
  burst.CommitToTheEnd();
  EXPECT_EQ(burst.num_computed(), 2 * kPrompt + (num_requests() - 2) * kRest);
  EXPECT_EQ(burst.computed[2], kPrompt);
}

TEST_P(BurstTest, ARequestNotToReadComputesAllAndSharesIt) {
  Burst burst(budget());
  Request first = Burst::Ask(1);
  first.read_cache = false;
  burst.Add(first);
  burst.AddMany(2, num_requests() - 1);
  Request last = Burst::Ask(1000);
  last.read_cache = false;
  burst.Add(last);
  burst.CommitToTheEnd();
  EXPECT_EQ(burst.num_computed(), 2 * kPrompt + (num_requests() - 1) * kRest);
  EXPECT_EQ(burst.computed[1000], kPrompt);
  burst.ExpectOutput(last);
}

TEST_P(BurstTest, TheChoicesOfARequestAddNothing) {
  Burst burst(budget());
  for (int32_t id = 1; id <= num_requests(); ++id) {
    Request request = Burst::Ask(id);
    request.num_choices = 3;
    burst.Add(request);
  }
  burst.CommitToTheEnd();
  EXPECT_EQ(burst.num_computed(), kPrompt + (num_requests() - 1) * kRest);
  EXPECT_EQ(burst.cache.TakeStats().hit_tokens, (num_requests() - 1) * kShared);
}

TEST_P(BurstTest, NothingIsSharedWithoutThePrefixCache) {
  KvCacheOptions options = Burst::Roomy();
  options.prefix_cache = false;
  Burst burst(budget(), options);
  burst.AddMany(1, num_requests());
  burst.CommitToTheEnd();
  EXPECT_EQ(burst.num_computed(), num_requests() * kPrompt);
}

TEST_P(BurstTest, NothingIsSharedAcrossNamespaces) {
  Burst burst(budget());
  for (int32_t id = 1; id <= num_requests(); ++id) {
    Request request = Burst::Ask(id);
    request.cache_namespace = MakeCacheNamespace(id % 2 == 0 ? "a" : "b", "");
    burst.Add(request);
  }
  burst.CommitToTheEnd();
  EXPECT_EQ(burst.num_computed(), 2 * kPrompt + (num_requests() - 2) * kRest);
}

// The first chunk of 24 tokens fills one block of 16 tokens. The other 8 tokens of the chunk are in
// a block that is not full, so no other request finds these tokens after the cancellation.
TEST(BurstProducerTest, AProducerThatIsCancelledBetweenStepsLeavesItsFullBlocks) {
  for (const int32_t num_requests : {2, 8, 64}) {
    Burst burst(24);
    burst.AddMany(1, num_requests);
    burst.PlanAndCommit();
    EXPECT_TRUE(burst.scheduler.Cancel(RequestId{1}));
    burst.CommitToTheEnd();
    EXPECT_EQ(burst.computed[1], 24);
    EXPECT_EQ(burst.computed[2], kPrompt - 16);
    EXPECT_EQ(burst.num_computed(), 24 + kPrompt - 16 + (num_requests - 2) * kRest);
    for (int32_t id = 2; id <= num_requests; ++id) burst.ExpectOutput(Burst::Ask(id));
  }
}

TEST(BurstProducerTest, AProducerThatIsCancelledDuringAStepLeavesWhatTheStepStored) {
  for (const int32_t num_requests : {2, 8, 64}) {
    Burst burst(24);
    burst.AddMany(1, num_requests);
    burst.PlanAndCommit();
    burst.Plan();
    EXPECT_TRUE(burst.scheduler.Cancel(RequestId{1}));
    burst.Run();
    burst.CommitToTheEnd();
    EXPECT_EQ(burst.computed[2], kPrompt - 48);
    EXPECT_EQ(burst.num_computed(), 24 + (num_requests - 1) * kRest);
  }
}

TEST(BurstProducerTest, AProducerThatIsCancelledDuringAFailingStepLeavesWhatWasThereBefore) {
  Burst burst(4096);
  burst.AddMany(1, 8);
  burst.Plan();
  EXPECT_EQ(burst.plan.num_tokens, kPrompt + 7 * kRest);
  EXPECT_TRUE(burst.scheduler.Cancel(RequestId{1}));
  burst.scheduler.Abort(burst.plan);
  burst.Collect();
  EXPECT_EQ(burst.cache.num_cached(), 0);
  burst.CommitToTheEnd();
  EXPECT_EQ(burst.computed[1], 0);
  EXPECT_EQ(burst.num_computed(), kPrompt + 6 * kRest);
  for (int32_t id = 2; id <= 8; ++id) burst.ExpectOutput(Burst::Ask(id));
}

// The cache has eight blocks. Requests 100 and 101 hold two blocks each, and request 1 holds three
// blocks for 44 tokens of its prompt. Then requests 100 and 101 need one more block each, so
// request 1 is preempted.
TEST(BurstProducerTest, AProducerThatIsPreemptedHalfWayFindsItsFullBlocksAgain) {
  for (const int32_t num_requests : {2, 8, 64}) {
    Burst burst(24, {.num_blocks = 8, .block_size = kBurstBlock});
    std::vector<Request> decoding;
    for (const uint64_t id : {100, 101}) {
      // Request 101 starts to decode one step later, so its prompt has one token more. Both
      // requests then need a third block in the same step.
      decoding.push_back(Burst::Ask(id, 0, id == 100 ? 29 : 30));
      decoding.back().output_tokens_max = 6;
      decoding.back().priority = 1;
      burst.Add(decoding.back());
    }
    while (burst.OutputOf(101).tokens.empty()) burst.PlanAndCommit();
    burst.AddMany(1, num_requests);
    int32_t num_preemptions = 0;
    int32_t computed_before = 0;
    while (!burst.scheduler.idle()) {
      burst.PlanAndCommit();
      if (burst.plan.num_preemptions > 0) computed_before = burst.computed[1];
      num_preemptions += burst.plan.num_preemptions;
    }
    EXPECT_EQ(num_preemptions, 1);
    EXPECT_EQ(computed_before, 44);
    EXPECT_EQ(burst.computed[1], 44 + kPrompt - 32);
    EXPECT_EQ(burst.num_computed() - burst.computed[100] - burst.computed[101],
              44 + kPrompt - 32 + (num_requests - 1) * kRest);
    for (const Request& request : decoding) burst.ExpectOutput(request);
    for (int32_t id = 1; id <= num_requests; ++id) burst.ExpectOutput(Burst::Ask(id));
    const KvCacheStats stats = burst.cache.TakeStats();
    EXPECT_EQ(stats.queries, num_requests + 2);
    EXPECT_EQ(stats.self_query_tokens, kPrompt);
    EXPECT_EQ(stats.self_hit_tokens, 32);
  }
}

// The prompts are equal and fill their last block. A request in the same step as the first request
// computes the whole last block, because blocks of a step in flight are not copied. A request in a
// later step copies the last block and computes only the last token.
TEST(BurstProducerTest, OfAPromptThatEndsWithABlockLaterOnesComputeOneToken) {
  constexpr int32_t kAligned = 48;
  const auto num_computed = [](int32_t budget, bool copies) {
    KvCacheOptions options = Burst::Roomy();
    options.copy_on_write = copies;
    Burst burst(budget, options);
    for (uint64_t id = 1; id <= 8; ++id) burst.Add(Burst::Ask(id, kAligned));
    burst.CommitToTheEnd();
    for (uint64_t id = 1; id <= 8; ++id) burst.ExpectOutput(Burst::Ask(id, kAligned));
    return burst.num_computed();
  };
  EXPECT_EQ(num_computed(4096, true), kAligned + 7 * kBurstBlock);
  EXPECT_EQ(num_computed(4096, false), kAligned + 7 * kBurstBlock);
  EXPECT_EQ(num_computed(kAligned, true), kAligned + 7);
  EXPECT_EQ(num_computed(kAligned, false), kAligned + 7 * kBurstBlock);
  EXPECT_EQ(num_computed(kAligned + kBurstBlock, true), kAligned + kBurstBlock + 6);
}

// Request 1 computes values that are not finite, so lookups must not find its blocks. The other
// requests of the step succeed. Later requests compute the shared prefix again.
TEST(BurstProducerTest, AProducerWhoseValuesAreNotFiniteSharesThemWithNoOther) {
  Burst burst(kPrompt + kRest);
  burst.AddMany(1, 4);
  burst.Plan();
  burst.runner.PoisonNextStep(kPrompt - 1);  // NaN for the last prompt token of request 1
  burst.Run();
  EXPECT_EQ(burst.OutputOf(1).finish, FinishReason::kError);
  EXPECT_EQ(burst.OutputOf(2).finish, FinishReason::kLength);
  EXPECT_EQ(burst.cache.num_cached(), 0);
  burst.CommitToTheEnd();
  EXPECT_EQ(burst.num_computed(), kPrompt + kRest);
  for (int32_t id = 2; id <= 4; ++id) burst.ExpectOutput(Burst::Ask(id));
}

}  // namespace
}  // namespace incipit
