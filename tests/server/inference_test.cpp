#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/server/test_server.h"

namespace incipit {
namespace {

using ::testing::ElementsAreArray;

std::vector<TokenId> Prompt(int32_t num_tokens, TokenId first = kFirstByte) {
  std::vector<TokenId> prompt;
  for (int32_t i = 0; i < num_tokens; ++i) prompt.push_back(first + i % 200);
  return prompt;
}

std::string Decoded(const std::vector<TokenId>& tokens) {
  return MakeByteTokenizer()->Decode(tokens, /*skip_special_tokens=*/true);
}

TEST(GenerateTest, StreamsWhatTheModelSays) {
  TestServer server;
  const Reply reply = Ask(server.inference(), Greedy(Prompt(40), 100));
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  ASSERT_EQ(reply.choices.size(), 1u);
  EXPECT_THAT(reply.choices[0].ids, ElementsAreArray(Expected(Prompt(40), 100)));
  EXPECT_EQ(reply.choices[0].text, Decoded(reply.choices[0].ids));
  EXPECT_EQ(reply.choices[0].finish, v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(reply.num_usages, 1);
  EXPECT_TRUE(reply.usage_is_last);
  EXPECT_EQ(reply.usage.prompt_tokens(), 40u);
  EXPECT_EQ(reply.usage.completion_tokens(), 100u);
  EXPECT_EQ(reply.usage.cached_tokens(), 0u);
  EXPECT_GT(reply.usage.time_to_first_token_seconds(), 0);
  EXPECT_GE(reply.usage.total_seconds(), reply.usage.time_to_first_token_seconds());
  EXPECT_FALSE(reply.request_id.empty());
}

TEST(GenerateTest, TextIsTokenisedAsTokenizeSays) {
  TestServer server;
  v1::TokenizeRequest tokenize;
  tokenize.set_text("<s>grüße\n");
  grpc::ClientContext context;
  v1::TokenizeResponse tokens;
  ASSERT_TRUE(server.inference().Tokenize(&context, tokenize, &tokens).ok());
  std::vector<TokenId> expected = {0};
  for (const TokenId token : BytesAsTokens("grüße\n")) expected.push_back(token);
  EXPECT_THAT(tokens.ids(), ElementsAreArray(expected));

  v1::GenerateRequest request = Greedy({}, 20);
  request.set_text(tokenize.text());
  EXPECT_THAT(Ask(server.inference(), request).choices.at(0).ids,
              ElementsAreArray(Expected(expected, 20)));
}

TEST(GenerateTest, ARequestIdIsEchoedInEveryMessage) {
  TestServer server;
  v1::GenerateRequest request = Greedy(Prompt(3), 3);
  request.set_request_id("mine \"%s\" 1");
  EXPECT_EQ(Ask(server.inference(), request).request_id, "mine \"%s\" 1");
}

TEST(GenerateTest, TheSecondPromptFindsTheFirstInTheCacheUnlessItsTenantOrSaltDiffers) {
  TestServer server;
  v1::GenerateRequest request = Greedy(Prompt(100), 2);
  EXPECT_EQ(Ask(server.inference(), request).usage.cached_tokens(), 0u);
  const Reply second = Ask(server.inference(), request);
  EXPECT_GE(second.usage.cached_tokens(), 96u);
  EXPECT_THAT(second.choices.at(0).ids, ElementsAreArray(Expected(Prompt(100), 2)));
  EXPECT_EQ(Ask(server.inference(), request, "other").usage.cached_tokens(), 0u);
  EXPECT_GE(Ask(server.inference(), request, "default").usage.cached_tokens(), 96u);
  request.mutable_cache()->set_salt(std::string("a\0b", 3));
  EXPECT_EQ(Ask(server.inference(), request).usage.cached_tokens(), 0u);
  EXPECT_GE(Ask(server.inference(), request).usage.cached_tokens(), 96u);
  request.mutable_cache()->set_skip_read(true);
  EXPECT_EQ(Ask(server.inference(), request).usage.cached_tokens(), 0u);
}

TEST(GenerateTest, TenantsShareWhereTheyAreNotIsolated) {
  TestServerConfig config;
  config.options.isolate_tenants = false;
  TestServer server(std::move(config));
  const v1::GenerateRequest request = Greedy(Prompt(100), 2);
  Ask(server.inference(), request, "one");
  EXPECT_GE(Ask(server.inference(), request, "two").usage.cached_tokens(), 96u);
}

TEST(GenerateTest, ChoicesDifferAndAreCountedTogether) {
  TestServer server;
  v1::GenerateRequest request = Greedy(Prompt(30), 25);
  request.mutable_output()->set_n(16);
  request.mutable_sampling()->set_seed(-7);
  const Reply reply = Ask(server.inference(), request);
  ASSERT_EQ(reply.choices.size(), 16u);
  for (int32_t i = 0; i < 16; ++i) {
    EXPECT_THAT(reply.choices[static_cast<size_t>(i)].ids,
                ElementsAreArray(Expected(Prompt(30), 25, i, static_cast<uint64_t>(-7))));
  }
  EXPECT_EQ(reply.usage.completion_tokens(), 400u);
}

TEST(GenerateTest, MaxTokensIsWhatTheContextLeaves) {
  TestServerConfig config;
  config.max_model_len = 64;
  TestServer server(std::move(config));
  for (const uint32_t max_tokens : {0u, 1000u, 4294967295u}) {
    const Reply reply = Ask(server.inference(), Greedy(Prompt(60), max_tokens));
    EXPECT_EQ(reply.choices.at(0).ids.size(), 4u);
    EXPECT_EQ(reply.choices.at(0).finish, v1::FINISH_REASON_LENGTH);
  }
}

// Returns the text of two consecutive tokens in the second half of `output` that are printable
// ASCII characters. Sets `first_token` to the index of the first of these tokens.
std::string TextInside(const std::vector<TokenId>& output, size_t* first_token) {
  for (size_t i = output.size() / 2; i + 1 < output.size(); ++i) {
    const int a = output[i] - kFirstByte, b = output[i + 1] - kFirstByte;
    if (a > 0x20 && a < 0x7F && b > 0x20 && b < 0x7F) {
      *first_token = i;
      return {static_cast<char>(a), static_cast<char>(b)};
    }
  }
  ADD_FAILURE() << "the output has no two consecutive ASCII characters";
  return "";
}

TEST(GenerateTest, AStopStringOverTwoTokensCutsTheTextBeforeIt) {
  TestServer server;
  const std::vector<TokenId> expected = Expected(Prompt(9), 200);
  size_t first = 0;
  const std::string stop = TextInside(expected, &first);
  const std::string whole = Decoded({expected.begin(), expected.begin() + first + 2});
  const std::string before = whole.substr(0, whole.find(stop));
  v1::GenerateRequest request = Greedy(Prompt(9), 200);
  request.mutable_output()->add_stop("never said by anybody");
  request.mutable_output()->add_stop(stop);
  Reply reply = Ask(server.inference(), request);
  ASSERT_TRUE(reply.status.ok());
  EXPECT_EQ(reply.choices.at(0).text, before);
  EXPECT_EQ(reply.choices.at(0).finish, v1::FINISH_REASON_STOP);
  EXPECT_EQ(reply.choices.at(0).stop_string, stop);
  EXPECT_EQ(reply.usage.completion_tokens(), reply.choices.at(0).ids.size());
  request.mutable_output()->set_include_stop(true);
  EXPECT_EQ(Ask(server.inference(), request).choices.at(0).text, before + stop);
}

TEST(GenerateTest, StopStringsAreNotLookedForBeforeMinTokens) {
  TestServer server;
  const std::vector<TokenId> expected = Expected(Prompt(9), 200);
  size_t first = 0;
  v1::GenerateRequest request = Greedy(Prompt(9), 200);
  request.mutable_output()->add_stop(TextInside(expected, &first));
  request.mutable_output()->set_min_tokens(static_cast<uint32_t>(first + 2));
  EXPECT_GT(Ask(server.inference(), request).choices.at(0).ids.size(), first + 2);
}

TEST(GenerateTest, AStopStringThatEndsAfterMinTokensIsFoundWhereverItBegins) {
  TestServer server;
  const std::vector<TokenId> expected = Expected(Prompt(9), 200);
  size_t first = 0;
  const std::string stop = TextInside(expected, &first);
  v1::GenerateRequest request = Greedy(Prompt(9), 200);
  request.mutable_output()->add_stop(stop);
  request.mutable_output()->set_min_tokens(static_cast<uint32_t>(first + 1));
  const Reply reply = Ask(server.inference(), request);
  EXPECT_EQ(reply.choices.at(0).ids.size(), first + 2);
  EXPECT_EQ(reply.choices.at(0).stop_string, stop);
  const std::string whole = Decoded({expected.begin(), expected.begin() + first + 2});
  EXPECT_EQ(reply.choices.at(0).text, whole.substr(0, whole.size() - stop.size()));
}

TEST(GenerateTest, AStopTokenEndsTheOutputAndIsNamed) {
  TestServer server;
  const std::vector<TokenId> expected = Expected(Prompt(9), 50);
  const TokenId stop = expected[20];
  const auto first =
      static_cast<size_t>(std::find(expected.begin(), expected.end(), stop) - expected.begin());
  v1::GenerateRequest request = Greedy(Prompt(9), 50);
  request.mutable_output()->add_stop_token_ids(static_cast<uint32_t>(stop));
  const Reply reply = Ask(server.inference(), request);
  EXPECT_EQ(reply.choices.at(0).finish, v1::FINISH_REASON_STOP);
  EXPECT_EQ(reply.choices.at(0).stop_token, stop);
  ASSERT_EQ(reply.choices.at(0).ids.size(), first + 1);
  EXPECT_EQ(reply.choices.at(0).text, Decoded({expected.begin(), expected.begin() + first}));
}

TEST(GenerateTest, TheModelsOwnStopTokenCountsUnlessIgnored) {
  const std::vector<TokenId> expected = Expected(Prompt(9), 50);
  TestServerConfig config;
  config.eos_ids = {expected[10]};
  TestServer server(std::move(config));
  v1::GenerateRequest request = Greedy(Prompt(9), 50);
  EXPECT_LE(Ask(server.inference(), request).choices.at(0).ids.size(), 11u);
  request.mutable_output()->set_ignore_eos(true);
  EXPECT_EQ(Ask(server.inference(), request).choices.at(0).ids.size(), 50u);
}

TEST(GenerateTest, SpecialTokensAreInTheTextOnlyIfKept) {
  const std::vector<TokenId> expected = Expected(Prompt(9), 600);
  TestServer server;
  v1::GenerateRequest request = Greedy(Prompt(9), 600);
  const std::string without = Ask(server.inference(), request).choices.at(0).text;
  request.mutable_output()->set_keep_special_tokens(true);
  const std::string with = Ask(server.inference(), request).choices.at(0).text;
  EXPECT_EQ(without, MakeByteTokenizer()->Decode(expected, true));
  EXPECT_EQ(with, MakeByteTokenizer()->Decode(expected, false));
  EXPECT_NE(with, without);
}

TEST(GenerateTest, LogprobsStandBesideEveryTokenAndPromptToken) {
  TestServer server;
  const FakeModel model(kByteVocab);
  const std::vector<TokenId> prompt = Prompt(150);
  v1::GenerateRequest request = Greedy(prompt, 20);
  request.mutable_output()->set_logprobs(3);
  request.mutable_output()->set_prompt_logprobs(2);
  // In the second round, the prompt is in the cache.
  for (int round = 0; round < 2; ++round) {
    const Reply reply = Ask(server.inference(), request);
    ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
    ASSERT_EQ(reply.prompt_logprobs.size(), 149u);
    for (size_t i = 0; i < 149; ++i) {
      const auto row = FakeModel::Row({prompt.data(), i + 1});
      EXPECT_EQ(reply.prompt_logprobs[i].token().token_id(), prompt[i + 1]);
      EXPECT_EQ(reply.prompt_logprobs[i].token().logprob(), model.Logprob(row, prompt[i + 1]));
      EXPECT_EQ(reply.prompt_logprobs[i].top_size(), 2);
    }
    std::vector<TokenId> tokens = prompt;
    ASSERT_EQ(reply.choices.at(0).logprobs.size(), 20u);
    for (const auto& logprobs : reply.choices.at(0).logprobs) {
      const auto row = FakeModel::Row(tokens);
      const auto token = static_cast<TokenId>(logprobs.token().token_id());
      EXPECT_EQ(logprobs.token().logprob(), model.Logprob(row, token));
      EXPECT_EQ(logprobs.top_size(), 3);
      if (token >= kFirstByte) {
        EXPECT_EQ(logprobs.token().text(), std::string(1, static_cast<char>(token - kFirstByte)));
      }
      tokens.push_back(token);
    }
    EXPECT_THAT(std::vector<TokenId>(tokens.end() - 20, tokens.end()),
                ElementsAreArray(Expected(prompt, 20)));
  }
}

TEST(GenerateTest, LogprobsOfALongPromptComeInMessagesThatEveryClientTakes) {
  TestServerConfig config;
  config.num_blocks = 300;
  config.max_model_len = 4096;
  config.step_tokens_max = 4096;
  TestServer server(std::move(config));
  const std::vector<TokenId> prompt = Prompt(4000);
  v1::GenerateRequest request = Greedy(prompt, 2);
  request.mutable_output()->set_prompt_logprobs(20);
  const Reply reply = Ask(server.inference(), request);
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  ASSERT_EQ(reply.prompt_logprobs.size(), 3999u);
  for (size_t i = 0; i < reply.prompt_logprobs.size(); ++i) {
    EXPECT_EQ(reply.prompt_logprobs[i].token().token_id(), prompt[i + 1]);
  }
  EXPECT_LE(reply.longest_message, size_t{256} << 10);
  // If the client is slower than the server, the session merges output into messages. A message
  // that the session estimates at 64 KiB takes 48 KiB when serialized.
  EXPECT_GT(reply.longest_message, size_t{32} << 10) << "many small messages";
}

TEST(GenerateTest, ManyAtOnceEachSayWhatTheySayAlone) {
  TestServerConfig config;
  config.num_blocks = 40;  // too few blocks for all requests, so some are preempted
  TestServer server(std::move(config));
  std::vector<std::thread> clients;
  for (int32_t i = 0; i < 24; ++i) {
    clients.emplace_back([&server, i] {
      const std::vector<TokenId> prompt = Prompt(20 + i, kFirstByte + i % 3);
      const Reply reply = Ask(server.inference(), Greedy(prompt, 60));
      ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
      EXPECT_THAT(reply.choices.at(0).ids, ElementsAreArray(Expected(prompt, 60)));
      EXPECT_EQ(reply.choices.at(0).text, Decoded(reply.choices.at(0).ids));
    });
  }
  for (std::thread& client : clients) client.join();
  server.AwaitLoad([](const auto& load) { return load.used_blocks() == 0; });
}

TEST(GenerateTest, OnePromptManyTimesInOneStepHasTheOutputOfOne) {
  const std::vector<TokenId> prompt = Prompt(90);
  TestServerConfig config;
  config.num_blocks = 1024;
  config.step_tokens_max = 8192;
  TestServer server(std::move(config));
  server.gate().Close();
  std::vector<std::thread> clients;
  for (int32_t i = 0; i < 64; ++i) {
    clients.emplace_back([&server, &prompt] {
      const Reply reply = Ask(server.inference(), Greedy(prompt, 20));
      ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
      EXPECT_THAT(reply.choices.at(0).ids, ElementsAreArray(Expected(prompt, 20)));
    });
  }
  server.AwaitLoad([](const auto& load) { return load.running() + load.waiting() == 64; });
  server.gate().Open();
  for (std::thread& client : clients) client.join();
  server.AwaitLoad([](const auto& load) { return load.used_blocks() == 0; });
}

TEST(GenerateTest, WithoutATokenizerIdsGoInAndOut) {
  TestServerConfig config;
  config.has_tokenizer = false;
  TestServer server(std::move(config));
  const Reply reply = Ask(server.inference(), Greedy(Prompt(5), 10));
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  EXPECT_THAT(reply.choices.at(0).ids, ElementsAreArray(Expected(Prompt(5), 10)));
  EXPECT_EQ(reply.choices.at(0).text, "");

  v1::GenerateRequest text;
  text.set_text("hello");
  EXPECT_EQ(Ask(server.inference(), text).status.error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
  grpc::ClientContext tokenize, detokenize;
  v1::TokenizeResponse tokens;
  EXPECT_EQ(server.inference().Tokenize(&tokenize, {}, &tokens).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
  v1::DetokenizeResponse detokenized;
  EXPECT_EQ(server.inference().Detokenize(&detokenize, {}, &detokenized).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
}

TEST(DetokenizeTest, IsTheReverseOfTokenize) {
  TestServer server;
  v1::DetokenizeRequest request;
  for (const TokenId token : BytesAsTokens("grüße")) request.add_ids(static_cast<uint32_t>(token));
  request.add_ids(kByteEos);
  v1::DetokenizeResponse response;
  grpc::ClientContext first, second, third;
  ASSERT_TRUE(server.inference().Detokenize(&first, request, &response).ok());
  EXPECT_EQ(response.text(), "grüße</s>");
  request.set_skip_special_tokens(true);
  ASSERT_TRUE(server.inference().Detokenize(&second, request, &response).ok());
  EXPECT_EQ(response.text(), "grüße");
  request.add_ids(kByteVocab);
  const grpc::Status status = server.inference().Detokenize(&third, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  // `ids` has seven bytes and one special token before this id.
  EXPECT_EQ(FieldOf(status), "ids[8]");
}

TEST(DetokenizeTest, TheTextIsBounded) {
  TestServerConfig config;
  config.options.request.detokenize_bytes_max = 1024;
  TestServer server(std::move(config));
  v1::DetokenizeRequest request;
  for (int i = 0; i < 1024; ++i) request.add_ids(kFirstByte + 'a');
  v1::DetokenizeResponse response;
  grpc::ClientContext first, second;
  ASSERT_TRUE(server.inference().Detokenize(&first, request, &response).ok());
  EXPECT_EQ(response.text().size(), 1024u);
  request.add_ids(kFirstByte + 'a');
  const grpc::Status status = server.inference().Detokenize(&second, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(FieldOf(status), "ids");
}

}  // namespace
}  // namespace incipit
