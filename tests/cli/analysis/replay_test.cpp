#include "cli/analysis/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "tests/cli/command_run.h"

namespace incipit {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Three requests with the blocks (a, b), (c, d) and (a, b). The last block of the last request has
// only 100 tokens.
constexpr const char* kLog =
    "{\"timestamp\": 0, \"input_length\": 1024, \"hash_ids\": [10, 11]}\n"
    "{\"timestamp\": 500, \"input_length\": 1024, \"hash_ids\": [18446744073709551615, 7]}\n"
    "{\"timestamp\": 900, \"input_length\": 612, \"hash_ids\": [10, 11]}\n";

class ReplayTest : public CommandTest {
 protected:
  int Replay(const std::vector<std::string>& arguments, const std::string& log = kLog) {
    WriteFile("log.jsonl", log);
    std::vector<std::string> all = {folder() + "/log.jsonl"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return Run(&RunReplay, all, "");
  }
  nlohmann::ordered_json Json() const { return nlohmann::ordered_json::parse(OutLines().at(0)); }
  std::string Text() const {
    std::string text;
    for (const std::string& line : OutLines()) text += line + "\n";
    return text;
  }
  std::vector<std::string> Policies() const {
    std::vector<std::string> policies;
    const auto json = Json();
    for (const auto& result : json["results"]) policies.push_back(result["policy"]);
    return policies;
  }
};

TEST_F(ReplayTest, JsonHasTheHitsOfAPolicyBesideTheOptimum) {
  ASSERT_EQ(Replay({"--blocks", "3", "--policy", "lru", "--json"}), kExitOk) << err();
  EXPECT_EQ(err(), "");
  EXPECT_EQ(OutLines().size(), 1u);
  nlohmann::ordered_json expected = {{"distinct_blocks", 4},
                                     {"capacity", 3},
                                     {"optimum", 2.0 / 6},
                                     {"results", nlohmann::ordered_json::array()}};
  expected["results"].push_back({{"policy", "lru"},
                                 {"block_hit_ratio", 1.0 / 6},
                                 {"token_hit_ratio", 512.0 / 2660},
                                 {"evictions", 2},
                                 {"regret", 1}});
  EXPECT_EQ(Json(), expected);
}

TEST_F(ReplayTest, AllPoliciesAreReplayedUnlessOneIsNamed) {
  ASSERT_EQ(Replay({"--blocks=4", "--json"}), kExitOk) << err();
  EXPECT_THAT(Policies(), ElementsAre("lru", "lfu-aging", "lru-2", "arc", "s3-fifo", "adaptive"));
  const auto json = Json();
  for (const auto& result : json["results"]) {
    EXPECT_EQ(result["block_hit_ratio"], 2.0 / 6);
    EXPECT_EQ(result["token_hit_ratio"],
              // The last block of the last prompt is not full and counts as 100 tokens.
              612.0 / 2660);
    EXPECT_EQ(result["evictions"], 0);
  }
  ASSERT_EQ(Replay({"--blocks=4", "--json", "--policy=all"}), kExitOk) << err();
  EXPECT_EQ(Policies().size(), 6u);
  ASSERT_EQ(Replay({"--blocks=4", "--json", "--policy=s3-fifo"}), kExitOk) << err();
  EXPECT_THAT(Policies(), ElementsAre("s3-fifo"));
}

TEST_F(ReplayTest, ATableSaysTheSame) {
  ASSERT_EQ(Replay({"--blocks", "3", "--policy", "lru"}), kExitOk) << err();
  EXPECT_THAT(OutLines().at(0),
              HasSubstr(": 3 requests, 6 blocks of 512 tokens, 4 distinct blocks"));
  EXPECT_THAT(
      OutLines().at(1),
      HasSubstr("Cache of 3 blocks (75.00 % of the distinct blocks); eviction rule: policies "
                "may evict "));
  EXPECT_THAT(
      Text(),
      HasSubstr("  policy   block hits  of the optimum  prompt tokens hit  evictions  regret\n"
                "  lru         16.67 %         50.00 %            19.25 %          2       1\n"
                "  optimum     33.33 %\n"));
  ASSERT_EQ(Replay({"--blocks", "3", "--make-room-first"}), kExitOk) << err();
  EXPECT_THAT(OutLines().at(1),
              HasSubstr("policies evict blocks before a prompt enters the cache"));
}

TEST_F(ReplayTest, ACapacityMayBeAShareOfTheDistinctBlocks) {
  const auto capacity = [&](const std::string& share, const std::string& log) {
    EXPECT_EQ(Replay({"--json", "--policy=lru", "--capacity-share", share}, log), kExitOk) << err();
    return Json()["capacity"].get<int64_t>();
  };
  EXPECT_EQ(capacity("0.5", kLog), 2);
  EXPECT_EQ(capacity("0.74", kLog), 2);
  EXPECT_EQ(capacity("1", kLog), 4);
  std::string hundred;
  for (int i = 0; i < 100; ++i) hundred += "{\"hash_ids\": [" + std::to_string(i) + "]}\n";
  EXPECT_EQ(capacity("0.29", hundred), 29);  // in floating point, 0.29 * 100 is less than 29
}

TEST_F(ReplayTest, ALargeCacheCostsNoMoreThanTheLogNeeds) {
  ASSERT_EQ(Replay({"--blocks", "268435456", "--json", "--policy=lru"}), kExitOk) << err();
  EXPECT_EQ(Json()["capacity"], 268'435'456);
  EXPECT_EQ(Json()["results"][0]["block_hit_ratio"], 2.0 / 6);
}

TEST_F(ReplayTest, TokenIdsAreCutIntoFullBlocks) {
  const std::string log = "[1,2,3,4,5]\n{\"token_ids\": [1,2,3,4,9]}\n[1,2,9,4]\n";
  ASSERT_EQ(Replay({"--blocks=8", "--json", "--block-size=2", "--policy=lru"}, log), kExitOk)
      << err();
  // The blocks of the three prompts are (1 2)(3 4), then (1 2)(3 4), then (1 2)(9 4).
  EXPECT_EQ(Json()["distinct_blocks"], 3);
  EXPECT_EQ(Json()["optimum"], 0.5);
  EXPECT_EQ(Json()["results"][0]["block_hit_ratio"], 0.5);
  EXPECT_EQ(Json()["results"][0]["token_hit_ratio"], 6.0 / 14);
  std::string sixteen = "[";
  for (int i = 0; i < 33; ++i) sixteen += std::to_string(i) + (i < 32 ? "," : "]\n");
  ASSERT_EQ(Replay({"--blocks=8", "--json", "--policy=lru"}, sixteen + sixteen), kExitOk) << err();
  EXPECT_EQ(Json()["distinct_blocks"], 2);
}

TEST_F(ReplayTest, TextsNeedATokenizer) {
  WriteFile("tokenizer.json", kTinyTokenizerJson);
  const std::string log = "\"abababab\"\n{\"prompt\": \"abababab\"}\n";
  ASSERT_EQ(Replay({"--blocks=8", "--json", "--block-size=2", "--tokenizer", folder()}, log),
            kExitOk)
      << err();
  EXPECT_EQ(Json()["distinct_blocks"], 2);  // the blocks are (<s> ab) and (ab ab)
  EXPECT_EQ(Replay({"--blocks=8"}, log), kExitFailure);
  EXPECT_THAT(err(), HasSubstr("log.jsonl:1: prompt is a text, which needs --tokenizer"));
}

TEST_F(ReplayTest, ALogMayComeFromStdin) {
  ASSERT_EQ(Run(&RunReplay, {"-", "--blocks=2", "--json", "--policy=lru"}, kLog), kExitOk) << err();
  EXPECT_EQ(Json()["capacity"], 2);
}

TEST_F(ReplayTest, AWrongLogIsNamedWithItsLine) {
  const auto error_of = [&](const std::string& log, const std::string& flag = "--policy=lru") {
    EXPECT_EQ(Replay({"--blocks=2", flag}, log), kExitFailure);
    EXPECT_TRUE(OutLines().empty());
    return err();
  };
  EXPECT_THAT(error_of(std::string(kLog) + "{\"hash_ids\": [1, \"2\"]}\n"),
              HasSubstr("log.jsonl:4: hash_ids"));
  EXPECT_THAT(error_of(std::string(kLog) + "{\"hash_ids\": "), HasSubstr("log.jsonl:4: not valid"));
  EXPECT_THAT(error_of(""), HasSubstr("log.jsonl has no request"));
  EXPECT_THAT(error_of("{\"hash_ids\": []}\n"), HasSubstr("no full block"));
  EXPECT_THAT(error_of("[1,2,3]\n"), HasSubstr("no full block of 16 tokens"));
  EXPECT_THAT(
      error_of("[1,2,3]\n", "--block-size=3"),
      HasSubstr(
          "--block-size has a wrong value for a log of token ids: block_size is 3; it must be "
          "a power of two"));
  EXPECT_EQ(Run(&RunReplay, {folder() + "/none.jsonl", "--blocks=1"}, ""), kExitFailure);
  EXPECT_THAT(err(), HasSubstr("none.jsonl"));
  EXPECT_EQ(Replay({"--capacity-share=0.2"}), kExitFailure);
  EXPECT_THAT(err(), HasSubstr("--capacity-share 0.2 of 4 distinct blocks is less than one block"));
}

// A chunk is one block of 512 tokens. The device holds three of the four blocks, so the third
// request finds block 10 in the device and block 11 on the disk.
TEST_F(ReplayTest, ADiskContinuesTheLookup) {
  const std::vector<std::string> flags = {"--blocks=3", "--policy=lru", "--disk-capacity-share=1",
                                          "--kv-token-bytes=1024"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), flags.begin(), flags.end());
    return more;
  };
  ASSERT_EQ(Replay(with({"--json"})), kExitOk) << err();
  constexpr int64_t kChunkBytes = 512 * 1024;
  EXPECT_EQ(Json()["disk"],
            nlohmann::ordered_json({{"capacity_bytes", int64_t{128} << 20},  // two segments
                                    {"working_set_bytes", 4 * kChunkBytes},
                                    {"chunk_tokens", 512},
                                    {"infinite_block_hit_ratio", 2.0 / 6}}));
  EXPECT_EQ(Json()["results"][0]["block_hit_ratio"], 1.0 / 6);
  EXPECT_EQ(Json()["results"][0]["disk"],
            nlohmann::ordered_json({{"block_hit_ratio", 1.0 / 6},
                                    {"token_hit_ratio", 100.0 / 2660},
                                    {"bytes_written", 4 * kChunkBytes},
                                    {"bytes_moved", 0},
                                    {"bytes_read", kChunkBytes},
                                    {"dropped_stores", 0},
                                    {"reclaimed_chunks", 0}}));
  // The write of a chunk takes 5 s, so no chunk is on the disk when the third request arrives.
  ASSERT_EQ(Replay(with({"--json", "--disk-write-mb-s=0.1"})), kExitOk) << err();
  EXPECT_EQ(Json()["results"][0]["disk"]["block_hit_ratio"], 0);
  // The second block of the first prompt is computed 1.024 s after the arrival of the request.
  ASSERT_EQ(Replay(with({"--json", "--prefill-tokens-s=1000"})), kExitOk) << err();
  EXPECT_EQ(Json()["results"][0]["disk"]["block_hit_ratio"], 0);
  EXPECT_EQ(Json()["results"][0]["disk"]["prefill_seconds_saved"]["device"], 0.512);
  ASSERT_EQ(Replay(with({"--json", "--prefill-tokens-s=2000"})), kExitOk) << err();
  EXPECT_EQ(Json()["results"][0]["disk"]["prefill_seconds_saved"]["disk"], 0.05);
  ASSERT_EQ(Replay(with({"--prefill-tokens-s=2000"})), kExitOk) << err();
  EXPECT_THAT(Text(), AllOf(HasSubstr("Disk of 134 MB for a working set of 2.1 MB"),
                            HasSubstr("Block hits of an infinite cache: 33.33 %"),
                            HasSubstr("  lru         16.67 %    16.67 %   33.33 %   2.1 MB    0 B  "
                                      "524 kB               0                 256 ms    50 ms\n")));
}

TEST_F(ReplayTest, AWrongFlagOfTheDiskIsNamed) {
  const std::string untimed = "{\"hash_ids\": [1]}\n{\"hash_ids\": [1, 2]}\n";
  EXPECT_EQ(Replay({"--blocks=3", "--disk-capacity-share=1"}, untimed), kExitFailure);
  EXPECT_THAT(err(), AllOf(HasSubstr("has no timestamps"), HasSubstr("--disk-write-mb-s 0")));
  EXPECT_EQ(Replay({"--blocks=3", "--disk-capacity-share=1", "--disk-write-mb-s=0"}, untimed),
            kExitOk)
      << err();
  EXPECT_EQ(Replay({"--blocks=3", "--disk-capacity-share=1", "--block-size=500"}), kExitFailure);
  EXPECT_THAT(err(), HasSubstr("--block-size that is a power of two"));
  for (const char* flag : {"--disk-write-mb-s=5", "--kv-token-bytes=5", "--prefill-tokens-s=5"}) {
    EXPECT_EQ(Replay({"--blocks=3", flag}), kExitUsage);
    EXPECT_THAT(err(), HasSubstr("has an effect only with --disk-capacity-share"));
  }
  for (const char* flag : {"--disk-capacity-share=0", "--disk-capacity-share=2.1",
                           "--disk-write-mb-s=-1", "--kv-token-bytes=0", "--prefill-tokens-s=0"}) {
    EXPECT_EQ(Replay({"--blocks=3", "--disk-capacity-share=1", flag}), kExitUsage) << flag;
  }
  const std::string short_prompts =
      "{\"timestamp\": 0, \"token_ids\": [1, 2]}\n"
      "{\"timestamp\": 9, \"token_ids\": [1, 2]}\n";
  EXPECT_EQ(Replay({"--blocks=3", "--disk-capacity-share=1", "--block-size=2"}, short_prompts),
            kExitFailure);
  EXPECT_THAT(err(), HasSubstr("no full chunk of 8 tokens"));
}

TEST_F(ReplayTest, AWrongFlagIsNamed) {
  const auto error_of = [&](const std::vector<std::string>& flags) {
    EXPECT_EQ(Replay(flags), kExitUsage);
    EXPECT_TRUE(OutLines().empty());
    return err();
  };
  EXPECT_THAT(error_of({}), HasSubstr("one of --blocks and --capacity-share is needed"));
  EXPECT_THAT(error_of({"--blocks=1", "--capacity-share=0.5"}), HasSubstr("exclude each other"));
  EXPECT_THAT(error_of({"--blocks=0"}), HasSubstr("--blocks"));
  EXPECT_THAT(error_of({"--capacity-share=0"}), HasSubstr("--capacity-share"));
  EXPECT_THAT(error_of({"--capacity-share=1.5"}), HasSubstr("--capacity-share"));
  EXPECT_THAT(error_of({"--capacity-share=nan"}), HasSubstr("--capacity-share"));
  EXPECT_THAT(error_of({"--blocks=1", "--policy=fifo"}),
              HasSubstr("all, lru, lfu-aging, lru-2, arc, s3-fifo, adaptive"));
  EXPECT_EQ(Run(&RunReplay, {"--blocks=1"}, ""), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("TRACE"));
}

TEST_F(ReplayTest, WhatDoesNotFitTogetherIsNoted) {
  const std::string log =
      "{\"input_length\": 16, \"hash_ids\": [1]}\n{\"input_length\": 32, \"hash_ids\": [1, 2]}\n";
  ASSERT_EQ(Replay({"--blocks=2", "--policy=lru"}, log), kExitOk) << err();
  EXPECT_THAT(Text(), HasSubstr("Note: in 1 of 2 requests, input_length does not fit"));
  ASSERT_EQ(Replay({"--blocks=2", "--policy=lru", "--block-size=16"}, log), kExitOk) << err();
  EXPECT_THAT(Text(), Not(HasSubstr("Note:")));
}

TEST_F(ReplayTest, HelpTeachesTheFormsAndTheRules) {
  EXPECT_EQ(Run(&RunReplay, {"--help"}, ""), kExitOk);
  EXPECT_THAT(Text(), AllOf(HasSubstr("hash_ids"), HasSubstr("--capacity-share"),
                            HasSubstr("lfu-aging"), HasSubstr("All blocks of a prompt can be")));
}

// The expected figures come from an independent prototype of the policies, which uses simple
// containers.
TEST_F(ReplayTest, ThePublishedTraceGivesTheFiguresOfAnIndependentSimulation) {
  const std::string path = INCIPIT_SOURCE_DIR "/tests/data/traces/mooncake_synthetic_trace.jsonl";
  struct Row {
    const char* share;
    double lru, optimum;
  };
  for (const Row& row :
       {Row{"0.01", 0.0380, 0.1854}, Row{"0.1", 0.2623, 0.5063}, Row{"0.4", 0.5451, 0.6396}}) {
    ASSERT_EQ(Run(&RunReplay, {path, "--capacity-share", row.share, "--policy=lru", "--json"}, ""),
              kExitOk);
    EXPECT_EQ(Json()["distinct_blocks"], 43'924);
    EXPECT_NEAR(Json()["results"][0]["block_hit_ratio"].get<double>(), row.lru, 0.0005);
    EXPECT_NEAR(Json()["optimum"].get<double>(), row.optimum, 0.0001);
  }
}

}  // namespace
}  // namespace incipit
