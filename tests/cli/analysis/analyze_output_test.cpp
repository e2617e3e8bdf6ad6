#include "cli/analysis/analyze_output.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status.h"
#include "cli/analysis/analyze_text.h"

namespace incipit {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

Trace HashTrace(const std::vector<std::vector<uint64_t>>& prompts) {
  Trace trace;
  for (const auto& ids : prompts) {
    TraceRequest request;
    request.line = static_cast<int64_t>(trace.requests.size()) + 1;
    request.hash_ids = ids;
    trace.requests.push_back(request);
  }
  return trace;
}

Trace TokenTrace(const std::vector<std::vector<TokenId>>& prompts) {
  Trace trace = {TraceForm::kTokenIds, {}};
  for (const auto& ids : prompts) {
    TraceRequest request;
    request.line = static_cast<int64_t>(trace.requests.size()) + 1;
    request.token_ids = ids;
    trace.requests.push_back(request);
  }
  return trace;
}

std::vector<TokenId> Numbers(TokenId from, TokenId to) {
  std::vector<TokenId> numbers;
  for (TokenId i = from; i < to; ++i) numbers.push_back(i);
  return numbers;
}

Analysis AnalysisOf(Trace trace, const AnalysisOptions& options = {},
                    std::optional<int32_t> block_size = std::nullopt) {
  BlockingOptions blocking;
  blocking.name = "log.jsonl";
  blocking.block_size = block_size;
  auto input = MakeBlocks(std::move(trace), blocking);
  EXPECT_TRUE(input.ok()) << input.status();
  auto analysis = Analyze(*input, options);
  EXPECT_TRUE(analysis.ok()) << analysis.status();
  return *std::move(analysis);
}

TEST(AnalysisTest, ATokenLogIsLookedAtInFourSizesOfBlocks) {
  // Each prompt has 40 tokens. The second prompt repeats 39 tokens of the first prompt, and the
  // third prompt repeats 16.
  std::vector<TokenId> second = Numbers(0, 40), third = Numbers(0, 40);
  second[39] = 99;
  third[16] = 99;
  const auto json = ToJson(AnalysisOf(TokenTrace({Numbers(0, 40), second, third})));
  EXPECT_EQ(json["form"], "token_ids");
  EXPECT_EQ(json["prompt_tokens"], 120);
  std::vector<int64_t> sizes, references, distinct, hits;
  for (const auto& size : json["block_sizes"]) {
    sizes.push_back(size["block_size"]);
    references.push_back(size["block_references"]);
    distinct.push_back(size["distinct_blocks"]);
    hits.push_back(size["attainable"]["tokens"]);
  }
  EXPECT_THAT(sizes, ElementsAre(8, 16, 32, 64));
  EXPECT_THAT(references, ElementsAre(15, 6, 3, 0));
  EXPECT_THAT(hits, ElementsAre(32 + 16, 32 + 16, 32, 0));
  EXPECT_THAT(distinct, ElementsAre(9, 3, 2, 0));
  EXPECT_EQ(json["block_sizes"][0]["sharing_requests"], 2);
  EXPECT_EQ(json["block_sizes"][0]["distinct_blocks_used_once"], 5);
  EXPECT_EQ(json["block_sizes"][2]["sharing_requests"], 1);
  // The log has only three requests, so the only window has the length of one request. One prompt
  // has 5 blocks of 8 tokens, or 1 block of 32 tokens.
  EXPECT_EQ(json["block_sizes"][0]["working_set_peaks"], nlohmann::ordered_json({5}));
  EXPECT_EQ(json["block_sizes"][2]["working_set_peaks"], nlohmann::ordered_json({1}));
  EXPECT_EQ(json["sharing"]["block_size"], 16);
  EXPECT_EQ(json["sharing"]["shared_tokens"]["max"], 32);
  EXPECT_DOUBLE_EQ(json["block_sizes"][1]["attainable"]["token_hit_ratio"], 0.4);
  EXPECT_DOUBLE_EQ(json["block_sizes"][1]["attainable"]["block_hit_ratio"], 0.5);
}

TEST(AnalysisTest, HashIdsStandForBlocksOfTheGivenSize) {
  Trace trace = HashTrace({{1, 2, 3}, {1, 2, 4}});
  // The last block of a prompt need not be full.
  for (TraceRequest& request : trace.requests) request.input_length = 250;
  const auto json = ToJson(AnalysisOf(std::move(trace), {}, 100));
  EXPECT_THAT(json["notes"], IsEmpty());
  EXPECT_EQ(json["prompt_tokens"], 500);
  EXPECT_EQ(json["block_sizes"][0]["block_size"], 100);
  EXPECT_EQ(json["block_sizes"][0]["distinct_blocks"], 4);
  EXPECT_EQ(json["block_sizes"][0]["attainable"]["tokens"], 200);
  EXPECT_EQ(json["block_sizes"][1]["block_size"], 200);
  EXPECT_EQ(json["block_sizes"][1]["block_references"], 2);
  EXPECT_EQ(json["block_sizes"][1]["attainable"]["tokens"], 200);
}

TEST(AnalysisTest, AHitOnABlockThatIsNotFullSavesNoMoreThanThePrompt) {
  Trace trace = HashTrace({{1, 2}, {1, 2}});
  for (TraceRequest& request : trace.requests) request.input_length = 150;
  const auto json = ToJson(AnalysisOf(std::move(trace), {}, 100));
  EXPECT_EQ(json["block_sizes"][0]["attainable"]["tokens"], 150);
  EXPECT_EQ(json["sharing"]["shared_tokens"]["max"], 150);
}

TEST(AnalysisTest, NeededSizesAreInBlocksTokensAndGib) {
  const AnalysisOptions options = {.window = {}, .bytes_per_token = int64_t{1} << 20, .decode = {}};
  const Analysis analysis = AnalysisOf(HashTrace({{1, 2}, {3}, {1, 2}, {3}}), options, 512);
  // The possible hits are the blocks 1 and 2 in the third request, and the block 3 in the fourth
  // request.
  const auto needed = ToJson(analysis)["block_sizes"][0]["needed"];
  ASSERT_EQ(needed.size(), 3);
  EXPECT_DOUBLE_EQ(needed[0]["share_of_attainable"], 0.5);
  EXPECT_EQ(needed[0]["blocks"], 3);
  EXPECT_EQ(needed[0]["tokens"], 3 * 512);
  EXPECT_DOUBLE_EQ(needed[0]["gib"], 1.5);
  EXPECT_DOUBLE_EQ(needed[0]["block_hit_ratio"], 0.5);
  EXPECT_THAT(Describe(analysis), HasSubstr("GiB"));
}

TEST(AnalysisTest, SharedPrefixesShowWhatTheyBeginWith) {
  const Trace tokens = TokenTrace({Numbers(10, 50), Numbers(10, 50)});
  EXPECT_EQ(AnalysisOf(tokens).beginnings[0], "10, 11, 12, ...");
  AnalysisOptions options;
  options.decode = [](std::span<const TokenId> ids) {
    return fmt::format("\x1b[31m{}\n{}", ids[0], std::string(100, 'x'));
  };
  EXPECT_EQ(AnalysisOf(tokens, options).beginnings[0],
            "\\x1b[31m10\\n" + std::string(28, 'x') + "...");
  EXPECT_EQ(AnalysisOf(HashTrace({{7, 8}, {7, 8}})).beginnings[0], "7, 8");
  options.num_top_prefixes = 0;
  EXPECT_THAT(AnalysisOf(tokens, options).beginnings, IsEmpty());
}

TEST(AnalysisTest, WhatDoesNotFitTogetherIsNoted) {
  Trace wrong_size = HashTrace({{1}, {1, 2}});
  wrong_size.requests[1].input_length = 8000;
  EXPECT_THAT(AnalysisOf(wrong_size).notes,
              ElementsAre(HasSubstr(
                  "line 2 has 2 ids, and its input_length is 8000. Is --block-size right?")));
  EXPECT_THAT(AnalysisOf(HashTrace({{1, 2}, {3, 2}})).notes,
              ElementsAre(HasSubstr("3 hash ids have different previous blocks")));
  Trace backwards = HashTrace({{1}, {2}, {3}});
  backwards.requests[0].timestamp = 5;
  backwards.requests[1].timestamp = 9;
  backwards.requests[2].timestamp = 8;
  const Analysis analysis = AnalysisOf(backwards);
  EXPECT_THAT(analysis.notes, ElementsAre(HasSubstr("1 timestamps, the first in line 3")));
  EXPECT_DOUBLE_EQ(analysis.seconds, 0.004);
  EXPECT_THAT(Describe(analysis), HasSubstr("\nNote: 1 timestamps"));
}

TEST(AnalysisTest, ALogThatIsTooLargeOrTooLongEndsAtItsLine) {
  BlockLog log(1, 16, 3);
  const std::string prompt = "ab";
  EXPECT_TRUE(log.Add({}, std::as_bytes(std::span(prompt))).ok());
  const absl::Status status = log.Add({}, std::as_bytes(std::span(prompt)));
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_THAT(MessageOf(status), HasSubstr("more than 3 blocks of 16 tokens"));
  EXPECT_EQ(log.num_requests(), 1);

  Trace trace = HashTrace({{1}, {2}});
  trace.requests[1].timestamp = 1e300;
  BlockingOptions blocking;
  blocking.name = "log.jsonl";
  const auto input = MakeBlocks(std::move(trace), blocking);
  EXPECT_TRUE(absl::IsInvalidArgument(input.status()));
  EXPECT_THAT(MessageOf(input.status()), HasSubstr("log.jsonl:2: the timestamp is"));
}

TEST(AnalysisTest, AWindowOfTimeNeedsTimestamps) {
  auto input = MakeBlocks(HashTrace({{1}}), BlockingOptions());
  ASSERT_TRUE(input.ok());
  AnalysisOptions options;
  options.window = 5;
  EXPECT_TRUE(absl::IsFailedPrecondition(Analyze(*input, options).status()));
  Trace trace = HashTrace({{1}, {2}, {1}});
  for (size_t i = 0; i < 3; ++i) trace.requests[i].timestamp = 4000.0 * static_cast<double>(i);
  const auto json = ToJson(AnalysisOf(trace, options))["working_set"];
  EXPECT_EQ(json["unit"], "s");
  ASSERT_EQ(json["windows"].size(), 1);
  EXPECT_DOUBLE_EQ(json["windows"][0]["length"], 5);
  EXPECT_EQ(json["windows"][0]["peak_blocks"], 2);
  EXPECT_DOUBLE_EQ(json["windows"][0]["peak_at"], 4);
}

TEST(AnalysisTest, LogsWithoutBlocksOrSharingCanBeShown) {
  for (const Trace& trace : {TokenTrace({{}}), TokenTrace({{1, 2, 3}, {4}}), HashTrace({{1}}),
                             HashTrace({{}, {}}), HashTrace({{1}, {2}})}) {
    const Analysis analysis = AnalysisOf(trace);
    EXPECT_THAT(Describe(analysis), HasSubstr("requests"));
    EXPECT_EQ(ToJson(analysis)["requests"], trace.requests.size());
    for (const Plot& plot : DrawPlots(analysis)) {
      EXPECT_THAT(plot.svg, Not(HasSubstr("nan"))) << plot.file_name;
      EXPECT_THAT(plot.svg, Not(HasSubstr("inf"))) << plot.file_name;
    }
  }
}

TEST(AnalysisTest, PlotsEscapeTheLogsName) {
  Analysis analysis = AnalysisOf(HashTrace({{1}, {1}}));
  analysis.name = "folder/<log> & \"more\"";
  std::vector<std::string> names;
  for (const Plot& plot : DrawPlots(analysis)) {
    names.push_back(plot.file_name);
    EXPECT_THAT(plot.svg, HasSubstr("&lt;log&gt; &amp; &quot;more&quot;"));
    EXPECT_THAT(plot.svg, Not(HasSubstr("<log>")));
  }
  EXPECT_THAT(names, ElementsAre("hit_ratio.svg", "working_set.svg", "shared_prefix.svg"));
}

TEST(AnalyzeTextTest, NumbersAndTimesAreShortAndExactEnough) {
  EXPECT_EQ(Thousands(0), "0");
  EXPECT_EQ(Thousands(999), "999");
  EXPECT_EQ(Thousands(1000), "1,000");
  EXPECT_EQ(Thousands(-1234567), "-1,234,567");
  EXPECT_EQ(ShortNumber(0), "0");
  EXPECT_EQ(ShortNumber(999.4), "999");
  EXPECT_EQ(ShortNumber(999.6), "1 k");
  EXPECT_EQ(ShortNumber(1234), "1.23 k");
  EXPECT_EQ(ShortNumber(12'345'678), "12.3 M");
  EXPECT_EQ(TimeText(0.25), "250 ms");
  EXPECT_EQ(TimeText(1.5), "1.5 s");
  EXPECT_EQ(TimeText(90), "1 min 30 s");
  EXPECT_EQ(TimeText(7200), "2 h");
  EXPECT_EQ(TimeText(90'000), "1 d 1 h");
}

TEST(AnalyzeTextTest, ColumnsOfATableStandInLine) {
  TextTable table({{"name", TextTable::Align::kLeft}, {"count"}});
  table.Add({"caf\u00e9", "1"});
  table.Add({"x", "12,345"});
  EXPECT_EQ(table.Text(1), " name   count\n caf\u00e9       1\n x     12,345\n");
}

}  // namespace
}  // namespace incipit
