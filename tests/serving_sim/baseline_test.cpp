// Tests the rules of the baselines.
#include "tests/serving_sim/baseline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace incipit::serving_sim {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// A device with at most 20 tokens in a step and 400 cache blocks of 16 tokens.
constexpr DeviceModel kBaselineDevice = {
    .name = "test", .step_s = 1, .step_tokens_max = 20, .running_max = 4, .num_blocks = 400};

// A request in a step, and the number of its tokens that the step computes.
struct Part {
  int32_t request, num_tokens;
  friend bool operator==(const Part&, const Part&) = default;
};
void PrintTo(const Part& part, std::ostream* out) {
  *out << part.request << ':' << part.num_tokens;
}

class BaselineTest : public testing::Test {
 protected:
  // Adds a request to the load. The first `num_shared` tokens of all prompts are equal.
  void Request(int32_t num_prompt, int32_t num_output, int32_t num_shared = 0) {
    SimRequest request;
    const uint64_t text = load_.requests.size() + 1;
    for (int32_t i = 0; i < num_prompt; ++i) {
      request.prompt.push_back(TextToken(i < num_shared ? 0 : text, i));
    }
    request.output_tokens = num_output;
    request.output_text = text;
    load_.requests.push_back(std::move(request));
  }

  void Start(SchedulerKind kind) {
    scheduler_ = MakeScheduler(kind, device_, load_, 1);
    for (size_t i = 0; i < load_.requests.size(); ++i) {
      scheduler_->Add(static_cast<int32_t>(i));
    }
  }

  // Plans and commits a step. Returns the number of tokens of each request in the step.
  std::vector<Part> Step() {
    SimStep step;
    events_.Clear();
    scheduler_->Plan(Time{} + FromSeconds(now_ += 1), step, events_);
    if (!step.items.empty()) scheduler_->Commit(FromSeconds(1), events_);
    num_preemptions_ = step.num_preemptions;
    std::vector<Part> parts;
    for (const SimItem& item : step.items) parts.push_back({item.request, item.num_tokens});
    return parts;
  }

  DeviceModel device_ = kBaselineDevice;
  Load load_;
  std::unique_ptr<SimScheduler> scheduler_;
  SimEvents events_;
  double now_ = 0;
  int32_t num_preemptions_ = 0;
};

TEST_F(BaselineTest, FcfsComputesWholePromptsBeforeItDecodes) {
  Request(12, 3);
  Request(8, 2);
  Request(50, 2);
  Start(SchedulerKind::kFcfs);
  EXPECT_THAT(Step(), ElementsAre(Part{0, 12}, Part{1, 8}));
  EXPECT_THAT(Step(), ElementsAre(Part{2, 50}));  // longer than a step, so computed alone
  EXPECT_THAT(Step(), ElementsAre(Part{0, 1}, Part{1, 1}, Part{2, 1}));
  EXPECT_THAT(Step(), ElementsAre(Part{0, 1}));
  EXPECT_THAT(Step(), IsEmpty());
}

TEST_F(BaselineTest, FcfsChunkedDecodesFirstAndFillsTheBudget) {
  Request(12, 4);
  Request(30, 2);
  Request(9, 1);
  Start(SchedulerKind::kFcfsChunked);
  EXPECT_THAT(Step(), ElementsAre(Part{0, 12}, Part{1, 8}));
  EXPECT_THAT(Step(), ElementsAre(Part{0, 1}, Part{1, 19}));
  EXPECT_THAT(Step(), ElementsAre(Part{0, 1}, Part{1, 3}, Part{2, 9}));
  EXPECT_THAT(Step(), ElementsAre(Part{0, 1}, Part{1, 1}));
  EXPECT_THAT(Step(), IsEmpty());
}

TEST_F(BaselineTest, FcfsChunkedPreemptsTheLastAndAdmitsNoOther) {
  device_.num_blocks = 3;
  Request(16, 20);
  Request(15, 3);
  Request(1, 1);
  device_.step_tokens_max = 31;
  Start(SchedulerKind::kFcfsChunked);
  EXPECT_THAT(Step(), ElementsAre(Part{0, 16}, Part{1, 15}));
  EXPECT_THAT(Step(), ElementsAre(Part{0, 1}, Part{1, 1}));
  // Request 1 needs a second block. All 3 blocks are in use, so request 1 is preempted.
  EXPECT_THAT(Step(), ElementsAre(Part{0, 1}));
  EXPECT_EQ(num_preemptions_, 1);
  // Request 2 would fit into the free block, but request 1 is before request 2 in the queue.
  EXPECT_THAT(Step(), ElementsAre(Part{0, 1}));
  EXPECT_EQ(num_preemptions_, 0);
}

TEST_F(BaselineTest, FcfsChunkedFindsBlocksOfTheSameStep) {
  device_.step_tokens_max = 100;
  Request(40, 1, 32);
  Request(40, 1, 32);
  Start(SchedulerKind::kFcfsChunked);
  EXPECT_THAT(Step(), ElementsAre(Part{0, 40}, Part{1, 8}));
  ASSERT_THAT(events_.admissions, SizeIs(2));
  EXPECT_EQ(events_.admissions[1].cached_tokens, 32);
}

TEST_F(BaselineTest, LongestPrefixFirstMixesNoPromptsWithDecodes) {
  Request(12, 3);
  Request(30, 2);
  Start(SchedulerKind::kLongestPrefix);
  // The step has room for 20 tokens, and request 0 takes 12 of them. A chunk of request 1 must fill
  // a block of 16 tokens, but only 8 tokens are left. Request 1 therefore waits.
  EXPECT_THAT(Step(), ElementsAre(Part{0, 12}));
  EXPECT_THAT(Step(), ElementsAre(Part{1, 16}));
  EXPECT_THAT(Step(), ElementsAre(Part{1, 14}));
  EXPECT_THAT(Step(), ElementsAre(Part{0, 1}, Part{1, 1}));
}

TEST_F(BaselineTest, LongestPrefixFirstSortsByCachedTokens) {
  device_.step_tokens_max = 100;
  device_.running_max = 1;
  Request(70, 1, 64);
  Request(70, 1);
  Request(70, 1, 48);
  Request(70, 1, 64);
  Start(SchedulerKind::kLongestPrefix);
  EXPECT_THAT(Step(), ElementsAre(Part{0, 70}));
  EXPECT_THAT(Step(), ElementsAre(Part{3, 6}));
  EXPECT_THAT(Step(), ElementsAre(Part{2, 22}));
  EXPECT_THAT(Step(), ElementsAre(Part{1, 70}));
}

// Requests 0 and 1 share 32 tokens. Request 1 waits until request 0 has computed these tokens.
TEST_F(BaselineTest, LongestPrefixFirstPutsRequestsWithTheSameBeginningLast) {
  device_.step_tokens_max = 110;
  Request(50, 1, 32);
  Request(50, 1, 32);
  Request(60, 1);
  Start(SchedulerKind::kLongestPrefix);
  EXPECT_THAT(Step(), ElementsAre(Part{0, 50}, Part{2, 60}));
  EXPECT_THAT(Step(), ElementsAre(Part{1, 18}));
}

TEST_F(BaselineTest, LongestPrefixFirstKeepsALongListInItsOrder) {
  device_.step_tokens_max = 100;
  device_.running_max = 1;
  Request(70, 1, 64);
  for (int32_t i = 0; i < 129; ++i) Request(20, 1);
  Request(70, 1, 64);  // has a cached prefix, which has no effect while more than 128 requests wait
  Start(SchedulerKind::kLongestPrefix);
  EXPECT_THAT(Step(), ElementsAre(Part{0, 70}));
  EXPECT_THAT(Step(), ElementsAre(Part{1, 20}));
  EXPECT_THAT(Step(), ElementsAre(Part{2, 20}));
  EXPECT_THAT(Step(), ElementsAre(Part{130, 6}));
}

// Free tokens are reserved for the outputs of running sequences, so a request with a long output
// waits.
TEST_F(BaselineTest, LongestPrefixFirstReservesTokensForOutputs) {
  device_.num_blocks = 20;
  device_.step_tokens_max = 100;
  Request(30, 250);
  Request(30, 250);
  Start(SchedulerKind::kLongestPrefix);
  EXPECT_THAT(Step(), ElementsAre(Part{0, 30}));
  EXPECT_THAT(Step(), ElementsAre(Part{0, 1}));
}

}  // namespace
}  // namespace incipit::serving_sim
