#include "cli/bench/trace_prompts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace incipit {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Lt;

using Tokens = std::vector<uint32_t>;

constexpr int64_t kContext = 100'000;

Tokens OrdinaryIds() {
  Tokens tokens;
  for (uint32_t id = 3; id < 512; ++id) tokens.push_back(id);
  return tokens;
}

Trace HashTrace() {
  Trace trace;
  trace.requests = {
      {.line = 1, .timestamp = 1000, .input_length = 30, .output_length = 5, .hash_ids = {1, 2, 3}},
      {.line = 2, .timestamp = 3500, .input_length = 25, .hash_ids = {1, 2, 9}},
      {.line = 3, .timestamp = 2000, .hash_ids = {7, 1}}};
  return trace;
}

TracePrompts PromptsOf(Trace trace, const TraceOptions& options, int64_t context = kContext) {
  return TracePrompts(std::move(trace), options, OrdinaryIds(), 512, 1, context);
}

Tokens Slice(const Tokens& tokens, size_t begin, size_t end) {
  return Tokens(tokens.begin() + static_cast<int64_t>(begin),
                tokens.begin() + static_cast<int64_t>(end));
}

TEST(TracePromptsTest, EqualHashIdsBecomeEqualTokens) {
  const TracePrompts prompts = PromptsOf(HashTrace(), {.block_size = 10, .output_tokens = 8});
  const BenchPrompt one = prompts.Make(0), two = prompts.Make(1), three = prompts.Make(2);
  EXPECT_EQ(prompts.scale(), 1);
  ASSERT_EQ(one.tokens.size(), 30u);
  ASSERT_EQ(two.tokens.size(), 25u) << "the last block is partly full";
  ASSERT_EQ(three.tokens.size(), 20u) << "no input_length";
  EXPECT_THAT(one.tokens, Each(AllOf(Ge(3u), Lt(512u))));
  EXPECT_EQ(Slice(one.tokens, 0, 20), Slice(two.tokens, 0, 20));
  EXPECT_NE(one.tokens[20], two.tokens[20]);
  EXPECT_EQ(Slice(three.tokens, 10, 20), Slice(one.tokens, 0, 10));
  EXPECT_NE(Slice(three.tokens, 0, 10), Slice(one.tokens, 0, 10));
  EXPECT_EQ(one.output_tokens, 5);
  EXPECT_EQ(two.output_tokens, 8) << "no output_length";
}

TEST(TracePromptsTest, TokensAfterTheLastHashIdAreUnique) {
  Trace trace;
  trace.requests = {{.line = 1, .input_length = 17, .hash_ids = {1}},
                    {.line = 2, .input_length = 17, .hash_ids = {1}}};
  const TracePrompts prompts = PromptsOf(trace, {.block_size = 10, .output_tokens = 1});
  const Tokens one = prompts.Make(0).tokens, two = prompts.Make(1).tokens;
  ASSERT_EQ(one.size(), 17u);
  EXPECT_EQ(Slice(one, 0, 10), Slice(two, 0, 10));
  EXPECT_NE(Slice(one, 10, 17), Slice(two, 10, 17));
}

TEST(TracePromptsTest, TokenIdsStayUnlessTheModelDoesNotHaveThem) {
  Trace trace;
  trace.form = TraceForm::kTokenIds;
  trace.requests = {{.line = 1, .token_ids = {5, 511, 0}}, {.line = 2, .token_ids = {5, 9}}};
  EXPECT_THAT(PromptsOf(trace, {.output_tokens = 1}).Make(0).tokens, ElementsAre(5, 511, 0));
  trace.requests[1].token_ids[1] = 512;
  const TracePrompts prompts = PromptsOf(trace, {.output_tokens = 1});
  EXPECT_THAT(prompts.Make(0).tokens, ElementsAre(8, 5, 3)) << "ordinary ids 5, 511 % 509 and 0";
  EXPECT_THAT(prompts.Make(1).tokens, ElementsAre(8, 6));
}

TEST(TracePromptsTest, AllLengthsShrinkByOneFactorAndKeepCommonPrefixes) {
  const TracePrompts prompts = PromptsOf(HashTrace(), {.block_size = 10, .output_tokens = 5}, 20);
  EXPECT_NEAR(prompts.scale(), 18.0 / 35, 1e-9);
  const BenchPrompt one = prompts.Make(0), two = prompts.Make(1);
  EXPECT_EQ(one.tokens.size(), 15u);
  EXPECT_EQ(one.output_tokens, 2);
  EXPECT_EQ(two.tokens.size(), 12u);
  EXPECT_EQ(Slice(one.tokens, 0, 10), Slice(two.tokens, 0, 10)) << "10 of 20 common tokens";
  const TracePrompts tiny = PromptsOf(HashTrace(), {.block_size = 10, .output_tokens = 5}, 3);
  for (int32_t i = 0; i < 3; ++i) {
    const BenchPrompt prompt = tiny.Make(i);
    EXPECT_GE(prompt.tokens.size(), 1u);
    EXPECT_LE(prompt.tokens.size() + static_cast<size_t>(prompt.output_tokens), 3u);
  }
}

TEST(TracePromptsTest, AnInputLengthMustFitTheHashIds) {
  EXPECT_TRUE(CheckTrace(HashTrace(), 10).ok());
  const absl::Status status = CheckTrace(HashTrace(), 16);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("line 1"), HasSubstr("--block-size")));
}

TEST(TraceArrivalsTest, StartAtZeroAndNeverDecrease) {
  const Trace trace = HashTrace();
  EXPECT_TRUE(HasTimes(trace));
  EXPECT_THAT(*TraceArrivals(trace, TimestampUnit::kMilliseconds, 1), ElementsAre(0, 2.5, 2.5));
  EXPECT_THAT(*TraceArrivals(trace, TimestampUnit::kSeconds, 0.5), ElementsAre(0, 1250, 1250));
  EXPECT_THAT(*TraceArrivals(trace, TimestampUnit::kSeconds, 1e6), ElementsAre(0, 1e9, 1e9));
  Trace wrong = trace;
  wrong.requests[1].timestamp = 1e12;
  EXPECT_THAT(std::string(TraceArrivals(wrong, TimestampUnit::kSeconds, 1).status().message()),
              AllOf(HasSubstr("line 2"), HasSubstr("--time-unit")));
  for (TraceRequest& request : wrong.requests) request.timestamp = 5;
  EXPECT_FALSE(HasTimes(wrong));
}

}  // namespace
}  // namespace incipit
