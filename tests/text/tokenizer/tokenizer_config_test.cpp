// Tests how the files beside tokenizer.json are read, in every format that occurs in model folders.
#include "text/tokenizer/tokenizer_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/status.h"
#include "tests/support/temp_path.h"

namespace incipit {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

class TokenizerConfigTest : public testing::Test {
 protected:
  TokenizerConfigTest() { std::filesystem::create_directories(folder_); }
  ~TokenizerConfigTest() override { std::filesystem::remove_all(folder_); }

  void Write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
  }
  TokenizerConfig Read() {
    const auto config = ReadTokenizerConfig(folder_);
    EXPECT_TRUE(config.ok()) << config.status();
    return config.ok() ? *config : TokenizerConfig();
  }

  const std::filesystem::path folder_ =
      TempPath(testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(TokenizerConfigTest, AFolderMayHaveNoneOfIt) {
  EXPECT_THAT(Read().special_tokens, IsEmpty());
  EXPECT_FALSE(Read().has_chat_template());
}

TEST_F(TokenizerConfigTest, TokensAreStringsOrObjectsAndHaveManyNames) {
  Write("tokenizer_config.json", R"({
    "add_bos_token": true, "model_max_length": 5, "tokenizer_class": "X",
    "bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": false}, "unk_token": null,
    "pad_token": "", "mask_token": "<mask>", "image_token": "<image>", "odd_token": [1],
    "extra_special_tokens": {"audio": "<audio>", "none": null},
    "additional_special_tokens": ["<a>", {"content": "<b>"}, "<a>"]})");
  const TokenizerConfig config = Read();
  EXPECT_THAT(config.special_tokens,
              ElementsAre(Pair("audio", "<audio>"), Pair("bos_token", "<s>"),
                          Pair("eos_token", "</s>"), Pair("image_token", "<image>"),
                          Pair("mask_token", "<mask>"), Pair("pad_token", "")));
  EXPECT_THAT(config.additional_special_tokens, ElementsAre("<a>", "<b>"));
}

TEST_F(TokenizerConfigTest, AnOldFoldersMapOfTokensCountsMore) {
  const std::string map =
      R"({"bos_token": {"content": "<new>"}, "pad_token": "<p>", "additional_special_tokens": ["<b>"]})";
  Write("tokenizer_config.json",
        R"({"bos_token": "<old>", "eos_token": "</s>", "additional_special_tokens": ["<a>"]})");
  Write("special_tokens_map.json", map);
  EXPECT_THAT(
      Read().special_tokens,
      ElementsAre(Pair("bos_token", "<new>"), Pair("eos_token", "</s>"), Pair("pad_token", "<p>")));
  EXPECT_THAT(Read().additional_special_tokens, ElementsAre("<a>", "<b>"));
  // With a tokenizer_config.json of the newer format, special_tokens_map.json is not read.
  Write("tokenizer_config.json", R"({"bos_token": "<old>", "added_tokens_decoder": {}})");
  EXPECT_THAT(Read().special_tokens, ElementsAre(Pair("bos_token", "<old>")));
}

TEST_F(TokenizerConfigTest, TemplatesHaveNamesOrFilesAndFilesReplaceThem) {
  Write("tokenizer_config.json", R"({"chat_template": [
    {"name": "tool_use", "template": "t"}, {"name": "rag", "template": "r"}]})");
  EXPECT_EQ(Read().chat_template, std::nullopt);
  EXPECT_EQ(Read().tool_chat_template, "t");
  Write("additional_chat_templates/tool_use.jinja", "file for tools");
  EXPECT_EQ(Read().tool_chat_template, "file for tools");
  Write("chat_template.jinja", "file");
  EXPECT_EQ(Read().chat_template, "file");
  EXPECT_EQ(Read().tool_chat_template, "file for tools");
}

TEST_F(TokenizerConfigTest, AFileReplacesEveryTemplateOfTheConfiguration) {
  Write("tokenizer_config.json", R"({"chat_template": [
    {"name": "default", "template": "d"}, {"name": "tool_use", "template": "t"}]})");
  Write("chat_template.jinja", "file");
  EXPECT_EQ(Read().chat_template, "file");
  EXPECT_EQ(Read().tool_chat_template, std::nullopt);
}

TEST_F(TokenizerConfigTest, WhatIsWrongIsNamedWithItsFile) {
  const auto expect = [&](const std::string& file, const std::string& text,
                          const std::string& part) {
    Write(file, text);
    const absl::Status status = ReadTokenizerConfig(folder_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(MessageOf(status), AllOf(HasSubstr(file), HasSubstr(part)));
    std::filesystem::remove(folder_ / file);
  };
  for (const std::string file : {"tokenizer_config.json", "special_tokens_map.json"}) {
    expect(file, "{", "JSON");
    expect(file, R"({"bos_token": 7})", "bos_token is number");
    expect(file, R"({"eos_token": {"text": "x"}})", "eos_token is object");
  }
  expect("tokenizer_config.json", R"({"chat_template": 7})", "chat_template");
  expect("tokenizer_config.json", R"({"chat_template": [{"template": "x"}]})",
         "chat_template[0].name");
}

TEST_F(TokenizerConfigTest, TemplatesThatAreNoTextAreRefused) {
  for (const std::string file :
       {"chat_template.jinja", "additional_chat_templates/tool_use.jinja"}) {
    Write(file, "\xFF");
    EXPECT_EQ(ReadTokenizerConfig(folder_).status().code(), absl::StatusCode::kInvalidArgument);
    Write(file, std::string(kChatTemplateBytesMax + 1, 'x'));
    EXPECT_THAT(MessageOf(ReadTokenizerConfig(folder_).status()), HasSubstr("at most 1048576"));
    std::filesystem::remove(folder_ / file);
  }
}

}  // namespace
}  // namespace incipit
