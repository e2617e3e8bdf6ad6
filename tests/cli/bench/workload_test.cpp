#include "cli/bench/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "cli/bench/workload_prompts.h"

namespace incipit {
namespace {

using ::testing::HasSubstr;

using Tokens = std::vector<uint32_t>;

constexpr int64_t kLargeContext = 1 << 20;

Tokens Vocabulary() {
  Tokens tokens;
  for (uint32_t id = 100; id < 1100; ++id) tokens.push_back(id);
  return tokens;
}

size_t NumEqual(const Tokens& a, const Tokens& b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

// Runs one user through `num_requests` requests, and returns the prompts. The output of each
// request consists of the token 7.
std::vector<BenchPrompt> PromptsOf(const Workload& workload, uint64_t seed, int num_requests) {
  WorkloadPrompts prompts(Vocabulary(), seed, workload);
  std::vector<BenchPrompt> result;
  for (int i = 0; i < num_requests; ++i) {
    result.push_back(prompts.Next(0));
    prompts.OnEnd(0, true, Tokens(static_cast<size_t>(result.back().output_tokens), 7));
  }
  return result;
}

TEST(WorkloadTest, AnUnknownNameIsAnErrorWithAllNames) {
  EXPECT_EQ(FindWorkload("rag")->name, "rag");
  const absl::Status status = FindWorkload("rga").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  for (const Workload& workload : Workloads()) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(std::string(workload.name)));
  }
}

TEST(WorkloadTest, LengthsFollowThePublishedShapes) {
  const auto longest = [](std::string_view name) { return LongestTokens(*FindWorkload(name)); };
  EXPECT_EQ(longest("chatbot"), 512 + 48 + 64);
  EXPECT_EQ(longest("multi-turn"), 4096 + 128);
  EXPECT_EQ(longest("code-completion"), 8000 + 32);
  EXPECT_EQ(longest("agent"), 1500 + 10 * 400);
}

TEST(WorkloadTest, ShrinksByOneFactorUntilTheLongestRequestFits) {
  for (const Workload& workload : Workloads()) {
    for (const int64_t context : {512, 2048, 4096, 131072}) {
      const auto fitted = FitWorkload(workload, 1, context);
      ASSERT_TRUE(fitted.ok()) << workload.name << " " << context;
      EXPECT_LE(LongestTokens(fitted->workload), context) << workload.name;
      const bool fits = LongestTokens(workload) <= context;
      EXPECT_EQ(fitted->scale == 1, fits) << workload.name;
      // Each of at most 22 lengths of a request is rounded down by less than 1 token.
      if (!fits) {
        EXPECT_GT(LongestTokens(fitted->workload), context - 22) << workload.name;
      }
    }
  }
  const auto chat = FitWorkload(*FindWorkload("chatbot"), 0.5, kLargeContext);
  EXPECT_EQ(chat->workload.shared_tokens, 256);
  EXPECT_EQ(chat->workload.message.max, 24);
  EXPECT_EQ(chat->workload.output_tokens, 32);
  EXPECT_EQ(chat->scale, 0.5);
  const absl::Status status = FitWorkload(*FindWorkload("multi-turn"), 1, 10).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("multi-turn"));
}

TEST(WorkloadPromptsTest, EqualSeedsGiveEqualPrompts) {
  for (const Workload& workload : Workloads()) {
    const auto first = PromptsOf(workload, 3, 12), second = PromptsOf(workload, 3, 12);
    const auto other = PromptsOf(workload, 4, 12);
    for (size_t i = 0; i < first.size(); ++i) {
      EXPECT_EQ(first[i].tokens, second[i].tokens) << workload.name;
      EXPECT_LT(NumEqual(first[i].tokens, other[i].tokens), 8u) << workload.name;
    }
  }
}

TEST(WorkloadPromptsTest, WorkloadsWithEqualSeedsShareNothing) {
  const Tokens rag = PromptsOf(*FindWorkload("rag"), 3, 1)[0].tokens;
  EXPECT_LT(NumEqual(rag, PromptsOf(*FindWorkload("rag-stable"), 3, 1)[0].tokens), 3u);
}

TEST(WorkloadPromptsTest, EveryRequestIsWithinTheShape) {
  for (const Workload& workload : Workloads()) {
    const int32_t least = workload.shared_tokens + workload.document.min + workload.message.min;
    for (const BenchPrompt& prompt : PromptsOf(workload, 5, 60)) {
      EXPECT_GE(prompt.tokens.size(), static_cast<size_t>(least)) << workload.name;
      EXPECT_LE(static_cast<int64_t>(prompt.tokens.size()) + prompt.output_tokens,
                LongestTokens(workload))
          << workload.name;
      EXPECT_EQ(prompt.output_tokens, workload.output_tokens) << workload.name;
    }
  }
}

TEST(WorkloadPromptsTest, ConversationsShareExactlyTheSharedTokens) {
  for (const Workload& workload : Workloads()) {
    if (workload.num_topics > 0) continue;
    WorkloadPrompts prompts(Vocabulary(), 6, workload);
    const Tokens one = prompts.Next(0).tokens, two = prompts.Next(1).tokens;
    const auto num_shared = static_cast<size_t>(workload.shared_tokens);
    EXPECT_GE(NumEqual(one, two), num_shared) << workload.name;
    EXPECT_LT(NumEqual(one, two), num_shared + 3) << workload.name;
  }
}

TEST(WorkloadPromptsTest, ATurnContinuesThePreviousPromptAndItsOutput) {
  for (const char* const name : {"multi-turn", "agent", "long-document"}) {
    const Workload workload = *FindWorkload(name);
    const auto prompts = PromptsOf(workload, 8, 2 * workload.num_turns);
    for (size_t i = 1; i < prompts.size(); ++i) {
      const Tokens& before = prompts[i - 1].tokens;
      const Tokens& prompt = prompts[i].tokens;
      if (i == static_cast<size_t>(workload.num_turns)) {  // a new conversation
        EXPECT_LT(prompt.size(), before.size());
        EXPECT_LT(NumEqual(prompt, before), static_cast<size_t>(workload.shared_tokens) + 3);
        continue;
      }
      Tokens history = before;
      history.insert(history.end(), static_cast<size_t>(workload.output_tokens), 7);
      EXPECT_EQ(NumEqual(history, prompt), history.size()) << name;
      const size_t num_new = prompt.size() - history.size();
      EXPECT_GE(num_new, static_cast<size_t>(workload.message.min)) << name;
      EXPECT_LE(num_new, static_cast<size_t>(workload.message.max)) << name;
    }
  }
}

TEST(WorkloadPromptsTest, AnEditReplacesTokensNearTheEnd) {
  const Workload workload = *FindWorkload("code-completion");
  const auto prompts = PromptsOf(workload, 9, 50);
  std::set<size_t> lengths;
  for (size_t i = 0; i < prompts.size(); ++i) {
    lengths.insert(prompts[i].tokens.size());
    if (i % static_cast<size_t>(workload.num_turns) == 0) continue;
    EXPECT_EQ(prompts[i].tokens.size(), prompts[i - 1].tokens.size());
    const size_t num_edited =
        prompts[i].tokens.size() - NumEqual(prompts[i].tokens, prompts[i - 1].tokens);
    EXPECT_GT(num_edited, 12u);
    EXPECT_LE(num_edited, 256u);
  }
  EXPECT_EQ(lengths.size(), 10u) << "each file has its own length";
}

TEST(WorkloadPromptsTest, StableDocumentsAreEqualInAllConversationsOnTheirTopic) {
  const Workload workload = *FindWorkload("rag-stable");
  const auto num_common = static_cast<size_t>(workload.shared_tokens + workload.document.max);
  std::map<Tokens, int> topics;
  for (const BenchPrompt& prompt : PromptsOf(workload, 10, 200)) {
    ++topics[Tokens(prompt.tokens.begin(), prompt.tokens.begin() + static_cast<int>(num_common))];
  }
  EXPECT_EQ(topics.size(), 8u);
  for (const auto& [tokens, count] : topics) EXPECT_GT(count, 8);
}

TEST(WorkloadPromptsTest, UsersHaveTheirOwnConversationsAndAFailureEndsOne) {
  const Workload workload = *FindWorkload("agent");
  WorkloadPrompts prompts(Vocabulary(), 11, workload);
  const Tokens one = prompts.Next(0).tokens, two = prompts.Next(1).tokens;
  prompts.OnEnd(0, true, Tokens(50, 7));
  prompts.OnEnd(1, false, {});
  EXPECT_EQ(NumEqual(one, prompts.Next(0).tokens), one.size());
  EXPECT_LT(NumEqual(two, prompts.Next(1).tokens), 1503u);
}

}  // namespace
}  // namespace incipit
