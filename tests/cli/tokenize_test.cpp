#include "cli/tokenize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/commands.h"
#include "tests/cli/command_run.h"

namespace incipit {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class TokenizeTest : public CommandTest {
 protected:
  TokenizeTest() { WriteFile("tokenizer.json", kTinyTokenizerJson); }

  std::vector<std::string> Lines(int (*command)(std::span<const std::string_view>),
                                 const std::string& input) {
    EXPECT_EQ(Run(command, {"--tokenizer", folder()}, input), kExitOk) << err();
    return OutLines();
  }
};

TEST_F(TokenizeTest, ALineIsAStringOrAnObject) {
  EXPECT_THAT(Lines(&RunTokenize,
                    "\"ab a\"\n{\"text\": \"ab\"}\n{\"text\": \"ab\", \"add_special_tokens\": "
                    "false}\n\"\"\n"),
              ElementsAre("[0,3,4,1]", "[0,3]", "[3]", "[0]"));
}

TEST_F(TokenizeTest, ABadLineIsAnErrorOfThatLineAlone) {
  EXPECT_THAT(
      Lines(&RunTokenize,
            "5\n{\"txt\": \"a\"}\n{}\n{\"text\": 1}\n{\"text\": \"a\", "
            "\"add_special_tokens\": 1}\nnonsense\n\"a\"\n"),
      ElementsAre(HasSubstr("a line must be a JSON string"), HasSubstr("unknown key \\\"txt\\\""),
                  HasSubstr("text is missing"), HasSubstr("a line must be a JSON string"),
                  HasSubstr("add_special_tokens must be true or false"), StartsWith("{\"error\":"),
                  "[0,1]"));
}

TEST_F(TokenizeTest, DetokenizeIsTheReverse) {
  EXPECT_THAT(Lines(&RunDetokenize,
                    "[0,3,4,1]\n{\"ids\": [0,3]}\n{\"ids\": [0,3], \"skip_special_tokens\": "
                    "false}\n[]\n[999]\n"),
              ElementsAre("\"ab a\"", "\"ab\"", "\"<s>ab\"", "\"\"", "\"\""));
}

TEST_F(TokenizeTest, WhatIsNoIdIsNamedByItsPosition) {
  EXPECT_THAT(
      Lines(&RunDetokenize, "[1,-1]\n[1.5]\n[4294967296]\n[\"a\"]\n\"a\"\n{\"id\": []}\n[1]\n"),
      ElementsAre(HasSubstr("ids[1] is not a token id"), HasSubstr("ids[0]"), HasSubstr("ids[0]"),
                  HasSubstr("ids[0]"), HasSubstr("must be an array"), HasSubstr("unknown key"),
                  "\"a\""));
}

TEST_F(TokenizeTest, AFolderIsNeededAndMustHoldATokenizer) {
  EXPECT_EQ(Run(&RunTokenize, {}, ""), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("--tokenizer DIR is missing"));
  EXPECT_EQ(Run(&RunDetokenize, {"--tokenizer", "/nonexistent"}, ""), kExitFailure);
  EXPECT_THAT(err(), HasSubstr("/nonexistent"));
}

}  // namespace
}  // namespace incipit
