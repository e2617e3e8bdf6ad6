#include "cli/analysis/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/status.h"

namespace incipit {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

absl::StatusOr<Trace> Read(const std::string& text, const TraceTokenizer& tokenizer = nullptr) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), &std::fclose);
  std::fwrite(text.data(), 1, text.size(), file.get());
  std::rewind(file.get());
  return ReadTrace(file.get(), "log.jsonl", tokenizer);
}

std::string ErrorOf(const std::string& text, const TraceTokenizer& tokenizer = nullptr) {
  const auto trace = Read(text, tokenizer);
  EXPECT_FALSE(trace.ok()) << text;
  EXPECT_TRUE(absl::IsInvalidArgument(trace.status()));
  return MessageOf(trace.status());
}

TEST(TraceTest, ReadsHashIdsWithLengthsAndTime) {
  const auto trace = Read(
      R"({"timestamp": 1.5, "input_length": 1000, "output_length": 7, "hash_ids": [0, 18446744073709551615]})"
      "\n\n"
      R"({"hash_ids": [], "session": {"hash_ids": ["x"], "deep": [[1, null]]}, "timestamp": null})");
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->form, TraceForm::kHashIds);
  ASSERT_EQ(trace->requests.size(), 2u);
  EXPECT_EQ(trace->requests[0].timestamp, 1.5);
  EXPECT_EQ(trace->requests[0].input_length, 1000);
  EXPECT_EQ(trace->requests[0].output_length, 7);
  EXPECT_THAT(trace->requests[0].hash_ids, ElementsAre(0u, 18446744073709551615u));
  EXPECT_TRUE(trace->requests[1].hash_ids.empty());
  EXPECT_EQ(trace->requests[1].input_length, 0);
}

TEST(TraceTest, ReadsTokenIdsUnderAllTheirNamesAndCountsThem) {
  for (const char* const line :
       {R"({"token_ids": [1, 2, 2147483647]})", R"({"prompt_token_ids": [1, 2, 2147483647]})",
        R"({"input_ids": [1, 2, 2147483647]})", R"({"ids": [1, 2, 2147483647]})",
        R"({"prompt": [1, 2, 2147483647]})", "[1, 2, 2147483647]"}) {
    const auto trace = Read(line);
    ASSERT_TRUE(trace.ok()) << trace.status();
    EXPECT_EQ(trace->form, TraceForm::kTokenIds);
    ASSERT_EQ(trace->requests.size(), 1u);
    EXPECT_THAT(trace->requests[0].token_ids, ElementsAre(1, 2, 2147483647));
    EXPECT_EQ(trace->requests[0].input_length, 3);
  }
}

TEST(TraceTest, RequestsKnowTheirLines) {
  const auto trace = Read("\n[1]\n\n[2]\n");
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->requests[0].line, 2);
  EXPECT_EQ(trace->requests[1].line, 4);
}

TEST(TraceTest, OfSeveralPromptsTheMostExactCounts) {
  const auto trace = Read(R"({"prompt": "a", "token_ids": [1], "hash_ids": [2]})");
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->form, TraceForm::kHashIds);
  EXPECT_TRUE(trace->requests[0].token_ids.empty());
  const auto tokens = Read(R"({"prompt": "a", "token_ids": [1]})");
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  EXPECT_THAT(tokens->requests[0].token_ids, ElementsAre(1));
}

TEST(TraceTest, ATextNeedsATokenizer) {
  EXPECT_THAT(ErrorOf(R"({"prompt": "ab"})"), HasSubstr("--tokenizer"));
  EXPECT_THAT(ErrorOf(R"("ab")"), HasSubstr("--tokenizer"));
  const TraceTokenizer bytes = [](std::string_view text) {
    return absl::StatusOr<std::vector<TokenId>>(std::vector<TokenId>(text.begin(), text.end()));
  };
  for (const char* const line : {R"({"prompt": "ab"})", R"({"text": "ab"})", R"("ab")"}) {
    const auto trace = Read(line, bytes);
    ASSERT_TRUE(trace.ok()) << trace.status();
    EXPECT_THAT(trace->requests[0].token_ids, ElementsAre('a', 'b'));
    EXPECT_EQ(trace->requests[0].input_length, 2);
  }
  const TraceTokenizer refusing = [](std::string_view) {
    return absl::StatusOr<std::vector<TokenId>>(InvalidArgument("no such letter"));
  };
  EXPECT_EQ(ErrorOf(R"({"prompt": "ab"})", refusing), "log.jsonl:1: no such letter");
}

TEST(TraceTest, ABadLineIsNamedWithItsNumberAndWhatIsWrong) {
  const std::string good = "{\"hash_ids\": [1]}\n\n";
  EXPECT_EQ(ErrorOf(good + "{\"hash_ids\": [1, \n"),
            "log.jsonl:3: not valid JSON: error at byte 18");
  for (const char* const line : {"5", "null", "true", "1.5", "-1"}) {
    EXPECT_EQ(ErrorOf(good + line),
              "log.jsonl:3: a line must be an object, a string or an array of token ids");
  }
  EXPECT_EQ(
      ErrorOf(good + "{}"),
      "log.jsonl:3: the line has none of hash_ids, token_ids, prompt_token_ids, prompt and text");
  EXPECT_THAT(ErrorOf("[1, [2]]"), AllOf(StartsWith("log.jsonl:1: a line must be an array"),
                                         HasSubstr("element 1 is wrong")));
  EXPECT_THAT(ErrorOf(good + "{\"hash_ids\": [1, -2]}"),
              AllOf(StartsWith("log.jsonl:3: hash_ids"), HasSubstr("element 1")));
  EXPECT_THAT(ErrorOf("{\"hash_ids\": [18446744073709551616]}"), HasSubstr("2^64 - 1"));
  EXPECT_THAT(ErrorOf("{\"hash_ids\": [[1]]}"), HasSubstr("element 0"));
  EXPECT_THAT(ErrorOf("{\"hash_ids\": [null]}"), HasSubstr("element 0"));
  EXPECT_THAT(ErrorOf("{\"hash_ids\": 1}"), HasSubstr("hash_ids must be an array"));
  EXPECT_THAT(ErrorOf("{\"token_ids\": [2147483648]}"), HasSubstr("from 0 to 2147483647"));
  EXPECT_THAT(ErrorOf("{\"input_length\": -1}"), HasSubstr("input_length must be a whole number"));
  EXPECT_THAT(ErrorOf("{\"output_length\": 1.5}"), HasSubstr("output_length must be"));
  EXPECT_THAT(ErrorOf("{\"timestamp\": \"now\"}"), HasSubstr("timestamp must be a finite number"));
  EXPECT_THAT(ErrorOf("{\"prompt\": 1}"), HasSubstr("prompt must be a string or an array"));
  EXPECT_THAT(ErrorOf("{\"prompt\": [\"a\"]}"), HasSubstr("prompt must be an array of whole"));
  EXPECT_THAT(ErrorOf(std::string("{}\0", 3)), HasSubstr("not valid JSON"));
}

TEST(TraceTest, FormsDoNotMix) {
  EXPECT_EQ(
      ErrorOf("{\"hash_ids\": [1]}\n{\"token_ids\": [1]}\n"),
      "log.jsonl:2: the prompt consists of tokens, but the prompt in line 1 consists of hash ids");
}

TEST(TraceTest, ALogWithoutARequestIsWrong) {
  EXPECT_EQ(ErrorOf(" \n\n"), "log.jsonl has no request");
}

TEST(TraceTest, AFileThatIsNotThereIsNamed) {
  const auto trace = ReadTraceFile("/nonexistent/log.jsonl", nullptr);
  EXPECT_TRUE(absl::IsNotFound(trace.status()));
  EXPECT_THAT(MessageOf(trace.status()), HasSubstr("/nonexistent/log.jsonl"));
}

}  // namespace
}  // namespace incipit
