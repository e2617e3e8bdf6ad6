#include "server/prewarm/prewarm_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>

#include "base/status.h"
#include "tests/support/temp_path.h"

namespace incipit {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

absl::StatusOr<std::vector<PrewarmPrompt>> Parse(std::string_view text) {
  return ParsePrewarmPrompts(text, "prompts.jsonl", RequestLimits());
}

std::string ErrorOfParse(std::string_view text) {
  const auto prompts = Parse(text);
  EXPECT_TRUE(absl::IsInvalidArgument(prompts.status())) << text;
  return MessageOf(prompts.status());
}

TEST(PrewarmFileTest, ReadsTextsAndTokenIdsInTheOrderOfTheLines) {
  const auto prompts = Parse(
      "{\"text\": \"Once\"}\n"
      " \t\r\n"
      "{\"token_ids\": [0, 7, 2147483647], \"tenant\": \"a\", \"salt\": \"s\"}\r\n"
      "{\"text\": \"upon\", \"salt\": null}");
  ASSERT_TRUE(prompts.ok()) << prompts.status();
  ASSERT_EQ(prompts->size(), 3u);
  EXPECT_EQ((*prompts)[0].line, 1);
  EXPECT_EQ(std::get<std::string>((*prompts)[0].prompt), "Once");
  EXPECT_EQ((*prompts)[0].tenant, "default");
  EXPECT_EQ((*prompts)[0].salt, "");
  EXPECT_EQ((*prompts)[1].line, 3);
  EXPECT_EQ(std::get<TokensDraft>((*prompts)[1].prompt), (TokensDraft{0, 7, 2147483647}));
  EXPECT_EQ((*prompts)[1].tenant, "a");
  EXPECT_EQ((*prompts)[1].salt, "s");
  EXPECT_EQ((*prompts)[2].line, 4);
  EXPECT_EQ(std::get<std::string>((*prompts)[2].prompt), "upon");
}

TEST(PrewarmFileTest, AFileWithoutPromptsIsValid) {
  EXPECT_TRUE(Parse("")->empty());
  EXPECT_TRUE(Parse("\n \n")->empty());
}

TEST(PrewarmFileTest, RefusesAWrongLineWithItsNumberAndTheReason) {
  const std::pair<const char*, const char*> cases[] = {
      {"{\"text\": \"a\"", "not valid JSON"},
      {"[1]", "object"},
      {"{\"text\": \"a\", \"text\": \"b\"}", "occurs twice"},
      {"{\"text\": \"a\", \"Salt\": \"b\"}", "unknown key \"Salt\""},
      {"{}", "either text or token_ids"},
      {"{\"text\": \"a\", \"token_ids\": [1]}", "either text or token_ids"},
      {"{\"text\": 1}", "text is 1"},
      {"{\"text\": \"\"}", "text is empty"},
      {"{\"text\": \"\xff\"}", "not valid JSON"},
      {"{\"token_ids\": \"1\"}", "token_ids is"},
      {"{\"token_ids\": []}", "token_ids is empty"},
      {"{\"token_ids\": [1, -1]}", "token_ids[1] is -1"},
      {"{\"token_ids\": [1, 2.0]}", "token_ids[1] is 2.0"},
      {"{\"token_ids\": [2147483648]}", "token_ids[0] is 2147483648"},
      {"{\"token_ids\": [[1]]}", "deep"},
      {"{\"text\": \"a\", \"tenant\": \"a b\"}", "tenant must be"},
      {"{\"text\": \"a\", \"tenant\": \"\"}", "tenant must be"},
      {"{\"text\": \"a\", \"salt\": 3}", "salt is 3"},
  };
  for (const auto& [line, reason] : cases) {
    EXPECT_THAT(ErrorOfParse(std::string("{\"text\": \"a\"}\n") + line + "\n{\"text\": \"a\"}"),
                AllOf(StartsWith("prompts.jsonl:2: "), HasSubstr(reason)))
        << line;
  }
}

TEST(PrewarmFileTest, RefusesValuesBeyondALimit) {
  RequestLimits limits;
  limits.cache_salt_bytes_max = 2;
  const auto salted = ParsePrewarmPrompts(R"({"text": "a", "salt": "abc"})", "f", limits);
  EXPECT_THAT(MessageOf(salted.status()), HasSubstr("--cache-salt-bytes-max is 2"));
  std::string many;
  for (size_t i = 0; i < kPrewarmPromptsMax; ++i) many += "{\"text\": \"a\"}\n";
  EXPECT_EQ(Parse(many)->size(), kPrewarmPromptsMax);
  EXPECT_THAT(ErrorOfParse(many + "{\"text\": \"a\"}"),
              HasSubstr(":10001: the file has more than"));
  const std::string longest = "{\"text\": \"" + std::string(kPrewarmLineBytesMax, 'a') + "\"}";
  EXPECT_THAT(ErrorOfParse(longest), StartsWith("prompts.jsonl:1: "));
  EXPECT_THAT(ErrorOfParse(std::string(kPrewarmBytesMax + 1, ' ')), HasSubstr("more than"));
}

TEST(PrewarmFileTest, ReadsAFile) {
  const std::filesystem::path path = TempPath("prewarm");
  std::ofstream(path) << "{\"text\": \"a\"}\n{\"text\": 1}\n";
  const auto wrong = ReadPrewarmFile(path, RequestLimits());
  EXPECT_THAT(MessageOf(wrong.status()), StartsWith(path.string() + ":2: "));
  std::ofstream(path) << "{\"text\": \"" << std::string(100'000, 'a') << "\"}\n";
  const auto right = ReadPrewarmFile(path, RequestLimits());
  ASSERT_TRUE(right.ok()) << right.status();
  EXPECT_EQ(std::get<std::string>(right->front().prompt).size(), 100'000u);
  std::filesystem::remove(path);
  EXPECT_TRUE(absl::IsNotFound(ReadPrewarmFile(path, RequestLimits()).status()));
  const absl::Status folder = ReadPrewarmFile(testing::TempDir(), RequestLimits()).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(folder)) << folder;
}

TEST(PrewarmFileTest, AFifoIsRefusedWithoutWaitingForAWriter) {
  const std::string path = TempPath("prewarm_fifo");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  auto status = std::async(std::launch::async,
                           [&] { return ReadPrewarmFile(path, RequestLimits()).status(); });
  const bool has_returned = status.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
  // Opens the pipe for writing, so that ReadPrewarmFile stops waiting.
  if (!has_returned) close(::open(path.c_str(), O_WRONLY));
  EXPECT_TRUE(has_returned);
  EXPECT_TRUE(absl::IsFailedPrecondition(status.get()));
  unlink(path.c_str());
}

}  // namespace
}  // namespace incipit
