#include "cli/tokenize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/commands.h"

namespace incipit {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// A byte-level tokenizer of a few tokens: "<s>" is special and comes first.
constexpr const char* kTokenizerJson = R"({
  "version": "1.0", "truncation": null, "padding": null,
  "added_tokens": [{"id": 0, "content": "<s>", "single_word": false, "lstrip": false,
                    "rstrip": false, "normalized": false, "special": true}],
  "normalizer": null,
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
                    "use_regex": true},
  "post_processor": {"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
               {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
    "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}}},
  "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true,
              "use_regex": true},
  "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
            "vocab": {"<s>": 0, "a": 1, "b": 2, "ab": 3, "Ġ": 4},
            "merges": ["a b"]}
})";

class TokenizeTest : public ::testing::Test {
 protected:
  TokenizeTest() : folder_(::testing::TempDir() + "tokenize_test_" + std::to_string(getpid())) {
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ + "/tokenizer.json") << kTokenizerJson;
  }
  ~TokenizeTest() override { std::filesystem::remove_all(folder_); }

  // Runs a command with `input` on stdin; returns the lines it wrote.
  std::vector<std::string> Lines(int (*run)(std::span<const std::string_view>),
                                 const std::string& input) {
    const std::string path = folder_ + "/input";
    std::ofstream(path) << input;
    const int saved = dup(STDIN_FILENO);
    EXPECT_NE(std::freopen(path.c_str(), "r", stdin), nullptr);
    ::testing::internal::CaptureStdout();
    const std::vector<std::string_view> args = {"--tokenizer", folder_};
    EXPECT_EQ(run(args), kExitOk);
    std::istringstream out(::testing::internal::GetCapturedStdout());
    dup2(saved, STDIN_FILENO);
    close(saved);
    std::vector<std::string> lines;
    for (std::string line; std::getline(out, line);) lines.push_back(line);
    return lines;
  }

  std::string folder_;
};

TEST_F(TokenizeTest, ALineIsAStringOrAnObject) {
  EXPECT_THAT(Lines(&RunTokenize,
                    "\"ab a\"\n{\"text\": \"ab\"}\n{\"text\": \"ab\", \"add_special_tokens\": "
                    "false}\n\"\"\n"),
              ElementsAre("[0,3,4,1]", "[0,3]", "[3]", "[0]"));
}

TEST_F(TokenizeTest, ABadLineIsAnErrorOfThatLineAlone) {
  EXPECT_THAT(Lines(&RunTokenize,
                    "5\n{\"txt\": \"a\"}\n{}\n{\"text\": 1}\n{\"text\": \"a\", "
                    "\"add_special_tokens\": 1}\nnonsense\n\"a\"\n"),
              ElementsAre(HasSubstr("must be a string"), HasSubstr("unknown key \\\"txt\\\""),
                          HasSubstr("text is missing"), HasSubstr("must be a string"),
                          HasSubstr("add_special_tokens must be true or false"),
                          StartsWith("{\"error\":"), "[0,1]"));
}

TEST_F(TokenizeTest, DetokenizeIsTheReverse) {
  EXPECT_THAT(Lines(&RunDetokenize,
                    "[0,3,4,1]\n{\"ids\": [0,3]}\n{\"ids\": [0,3], \"skip_special_tokens\": "
                    "false}\n[]\n[999]\n"),
              ElementsAre("\"ab a\"", "\"ab\"", "\"<s>ab\"", "\"\"", "\"\""));
}

TEST_F(TokenizeTest, WhatIsNoIdIsNamedByItsPlace) {
  EXPECT_THAT(
      Lines(&RunDetokenize, "[1,-1]\n[1.5]\n[4294967296]\n[\"a\"]\n\"a\"\n{\"id\": []}\n[1]\n"),
      ElementsAre(HasSubstr("ids[1] is no token id"), HasSubstr("ids[0]"), HasSubstr("ids[0]"),
                  HasSubstr("ids[0]"), HasSubstr("must be an array"), HasSubstr("unknown key"),
                  "\"a\""));
}

TEST_F(TokenizeTest, AFolderIsNeededAndMustHoldATokenizer) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(RunTokenize({}), kExitUsage);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("--tokenizer DIR is needed"));
  ::testing::internal::CaptureStderr();
  const std::vector<std::string_view> args = {"--tokenizer", "/nonexistent"};
  EXPECT_EQ(RunDetokenize(args), kExitFailure);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("/nonexistent"));
}

}  // namespace
}  // namespace incipit
