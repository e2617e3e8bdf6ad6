#include "cli/bench/bench_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "tests/cli/command_run.h"

namespace incipit {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class BenchModelCommandTest : public CommandTest {
 protected:
  int RunWith(std::vector<std::string> arguments) {
    return Run(&RunBenchModel, std::move(arguments), "");
  }
  // Folder of a model with two layers, 97 tokens in the vocabulary and a context of 128 tokens.
  const std::string model_ = INCIPIT_SOURCE_DIR "/tests/golden/hf/llama-plain";
};

TEST_F(BenchModelCommandTest, PrintsOneJsonObject) {
  ASSERT_EQ(RunWith({"--model", model_, "--prompt", "24", "--generate", "4", "--sequences=2,5",
                     "--repeat", "1", "--threads", "1", "--json"}),
            kExitOk)
      << err();
  ASSERT_THAT(OutLines(), SizeIs(1));
  const auto json = nlohmann::json::parse(OutLines()[0]);
  EXPECT_EQ(json["weights"], "f32");
  EXPECT_EQ(json["kv_dtype"], "f32");
  ASSERT_THAT(json["prefill"], SizeIs(1));
  EXPECT_EQ(json["prefill"][0]["sequences"], 1);
  EXPECT_EQ(json["prefill"][0]["tokens"], 24);
  ASSERT_THAT(json["decode"], SizeIs(2));
  EXPECT_EQ(json["decode"][0]["sequences"], 2);
  EXPECT_EQ(json["decode"][1]["sequences"], 5);
  EXPECT_EQ(json["decode"][1]["tokens"], 20);
  for (const char* const key : {"tokens_per_s", "gflops", "gbytes_per_s", "fraction_of_limit"}) {
    EXPECT_GT(json["decode"][1][key], 0) << key;
  }
  EXPECT_EQ(json["machine"]["threads"], 1);
  EXPECT_GT(json["machine"]["f32_gflops"], 0);
  EXPECT_GT(json["machine"]["read_gbytes_per_s"], 0);
}

TEST_F(BenchModelCommandTest, PrintsATableForPeople) {
  ASSERT_EQ(RunWith({"--model", model_, "--prompt", "24", "--generate", "4", "--sequences", "3",
                     "--repeat", "1", "--threads", "1"}),
            kExitOk)
      << err();
  const std::vector<std::string> lines = OutLines();
  ASSERT_THAT(lines, SizeIs(7));
  EXPECT_THAT(lines[4], AllOf(HasSubstr("sequences"), HasSubstr("of limit")));
  EXPECT_THAT(lines[5], HasSubstr("prefill"));
  EXPECT_THAT(lines[6], HasSubstr("decode"));
}

TEST_F(BenchModelCommandTest, TakesTheWeightsAndTheInstructionSetThatWereAskedFor) {
  ASSERT_EQ(RunWith({"--model", model_, "--prompt", "8", "--generate", "2", "--sequences", "1",
                     "--repeat", "1", "--threads", "1", "--weights", "int8", "--cpu-isa",
                     "portable", "--profile", "--json"}),
            kExitOk)
      << err();
  const auto json = nlohmann::json::parse(OutLines().at(0));
  EXPECT_EQ(json["weights"], "int8");
  EXPECT_EQ(json["machine"]["isa"], "portable");
  EXPECT_TRUE(json["machine"]["int8_gops"].is_null());
  EXPECT_FALSE(json["decode"][0]["profile"].empty());
}

TEST_F(BenchModelCommandTest, RefusesAWrongFlagByName) {
  const auto expect_refused = [this](std::vector<std::string> arguments, const char* message) {
    EXPECT_EQ(RunWith(std::move(arguments)), kExitUsage);
    EXPECT_THAT(err(), HasSubstr(message));
  };
  expect_refused({}, "--model");
  expect_refused({"--model", model_, "--sequences", "1,,2"}, "--sequences");
  expect_refused({"--model", model_, "--sequences", "0"}, "1 to 4096");
  expect_refused({"--model", model_, "--sequences", "1,4097"}, "1 to 4096");
  expect_refused({"--model", model_, "--sequences", "1,"}, "--sequences");
  expect_refused({"--model", model_, "--sequences", ""}, "--sequences");
  expect_refused({"--model", model_, "--repeat", "0"}, "--repeat");
  expect_refused({"--model", model_, "--kv-dtype", "int8"}, "--kv-dtype");
}

TEST_F(BenchModelCommandTest, WhatTheModelDoesNotHoldIsAWrongFlagToo) {
  EXPECT_EQ(RunWith({"--model", model_, "--prompt", "129", "--repeat", "1"}), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("the model's context is 128"));
}

TEST_F(BenchModelCommandTest, AModelThatIsNotThereIsAFailure) {
  EXPECT_EQ(RunWith({"--model", folder() + "/none"}), kExitFailure);
  EXPECT_THAT(err(), HasSubstr("none"));
}

}  // namespace
}  // namespace incipit
