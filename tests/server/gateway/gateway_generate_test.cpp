// Tests VllmEngine.Generate: output, usage, options, errors and limits.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/server/gateway/gateway_client.h"

namespace incipit {
namespace {

using grpc::StatusCode;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

const std::vector<TokenId> kPrompt = {10, 11, 12, 13, 14, 15, 16, 17};

TestServerConfig SmallConfig(const std::function<void(Options&)>& change) {
  TestServerConfig config;
  change(config.options);
  return config;
}

TEST(GatewayGenerateTest, AStreamHasChunksAndOneCompleteMessage) {
  TestServer server;
  const GatewayReply reply = AskGateway(server, GatewayGreedy(kPrompt, 20, true));
  EXPECT_TRUE(reply.status.ok()) << reply.status.error_message();
  EXPECT_THAT(reply.Tokens(), ElementsAreArray(Expected(kPrompt, 20)));
  ASSERT_EQ(reply.completes.size(), 1u);
  const GatewayComplete& complete = reply.completes[0];
  EXPECT_EQ(complete.finish_reason(), "length");
  EXPECT_EQ(complete.prompt_tokens(), kPrompt.size());
  EXPECT_EQ(complete.completion_tokens(), 20u);
  EXPECT_EQ(complete.cached_tokens(), 0u);
  EXPECT_EQ(complete.matched_stop_case(), GatewayComplete::MATCHED_STOP_NOT_SET);
  uint32_t num_tokens = 0;
  for (const GatewayChunk& chunk : reply.chunks) {
    num_tokens += static_cast<uint32_t>(chunk.token_ids_size());
    EXPECT_EQ(chunk.completion_tokens(), num_tokens);
    EXPECT_EQ(chunk.prompt_tokens(), kPrompt.size());
  }
}

TEST(GatewayGenerateTest, AWholeResponseHasTheOutputOfAStream) {
  TestServer server;
  const GatewayReply reply = AskGateway(server, GatewayGreedy(kPrompt, 20, false));
  EXPECT_TRUE(reply.status.ok()) << reply.status.error_message();
  EXPECT_TRUE(reply.chunks.empty());
  ASSERT_EQ(reply.completes.size(), 1u);
  EXPECT_THAT(TokensOf(reply.completes[0]), ElementsAreArray(Expected(kPrompt, 20)));
  EXPECT_EQ(reply.completes[0].finish_reason(), "length");
  EXPECT_EQ(reply.completes[0].completion_tokens(), 20u);
}

TEST(GatewayGenerateTest, CachedTokensAreReportedFromTheFirstChunkOn) {
  TestServer server;
  const std::vector<TokenId> prompt(40, 9);
  AskGateway(server, GatewayGreedy(prompt, 2, false));
  const GatewayReply reply = AskGateway(server, GatewayGreedy(prompt, 2, true));
  ASSERT_FALSE(reply.chunks.empty());
  EXPECT_GE(reply.chunks[0].cached_tokens(), 32u);
  EXPECT_EQ(reply.completes.at(0).cached_tokens(), reply.chunks[0].cached_tokens());
}

TEST(GatewayGenerateTest, EachChoiceHasItsIndex) {
  TestServer server;
  for (const bool streams : {false, true}) {
    GatewayPrompt request = GatewayGreedy(kPrompt, 12, streams);
    request.mutable_sampling_params()->set_n(3);
    const GatewayReply reply = AskGateway(server, request);
    ASSERT_EQ(reply.completes.size(), 3u);
    for (const GatewayComplete& complete : reply.completes) {
      const uint32_t index = complete.index();
      const auto expected = Expected(kPrompt, 12, static_cast<int32_t>(index));
      EXPECT_THAT(streams ? reply.Tokens(index) : TokensOf(complete), ElementsAreArray(expected));
      EXPECT_EQ(complete.completion_tokens(), 12u);
    }
  }
}

TEST(GatewayGenerateTest, TheOutputContainsTheTokensOfAStopString) {
  TestServer server;
  const std::vector<TokenId> output = Expected(kPrompt, 40);
  // Two tokens that are printable characters.
  size_t end = 1;
  const auto is_character = [&](size_t i) { return output[i] >= 40 && output[i] < 120; };
  while (end < output.size() && !(is_character(end - 1) && is_character(end))) ++end;
  ASSERT_LT(end, output.size());
  std::string stop;
  for (size_t i : {end - 1, end}) stop += static_cast<char>(output[i] - kFirstByte);
  for (const bool streams : {false, true}) {
    GatewayPrompt request = GatewayGreedy(kPrompt, 40, streams);
    request.mutable_sampling_params()->add_stop(stop);
    const GatewayReply reply = AskGateway(server, request);
    ASSERT_EQ(reply.completes.size(), 1u);
    const GatewayComplete& complete = reply.completes[0];
    EXPECT_THAT(streams ? reply.Tokens() : TokensOf(complete),
                ElementsAreArray(output.begin(), output.begin() + static_cast<long>(end) + 1));
    EXPECT_EQ(complete.finish_reason(), "stop");
    EXPECT_EQ(complete.matched_stop_str(), stop);
  }
}

TEST(GatewayGenerateTest, TheOutputContainsTheStopToken) {
  TestServer server;
  const std::vector<TokenId> output = Expected(kPrompt, 5);
  GatewayPrompt request = GatewayGreedy(kPrompt, 40, false);
  request.mutable_sampling_params()->add_stop_token_ids(static_cast<uint32_t>(output[4]));
  const GatewayReply reply = AskGateway(server, request);
  EXPECT_THAT(TokensOf(reply.completes.at(0)), ElementsAreArray(output));
  EXPECT_EQ(reply.completes[0].finish_reason(), "stop");
  EXPECT_EQ(reply.completes[0].matched_token_id(), static_cast<uint32_t>(output[4]));
}

TEST(GatewayGenerateTest, LogProbabilitiesFollowTheTokens) {
  TestServer server;
  for (const bool streams : {false, true}) {
    GatewayPrompt request = GatewayGreedy(kPrompt, 6, streams);
    request.mutable_sampling_params()->set_logprobs(2);
    const GatewayReply reply = AskGateway(server, request);
    std::vector<TokenId> scored;
    const auto add = [&](const vllm::grpc::engine::OutputLogProbs& logprobs) {
      EXPECT_EQ(logprobs.token_logprobs_size(), logprobs.token_ids_size());
      ASSERT_EQ(logprobs.top_logprobs_size(), logprobs.token_ids_size());
      for (const auto& top : logprobs.top_logprobs()) {
        EXPECT_EQ(top.values_size(), 2);
        EXPECT_EQ(top.token_ids_size(), 2);
      }
      scored.insert(scored.end(), logprobs.token_ids().begin(), logprobs.token_ids().end());
    };
    if (streams) {
      for (const GatewayChunk& chunk : reply.chunks) add(chunk.output_logprobs());
    } else {
      add(reply.completes.at(0).output_logprobs());
    }
    EXPECT_THAT(scored, ElementsAreArray(Expected(kPrompt, 6)));
  }
}

TEST(GatewayGenerateTest, WithoutMaxTokensTheOutputFillsTheContext) {
  TestServer server;
  GatewayPrompt request = GatewayGreedy(kPrompt, 1, false);
  request.mutable_sampling_params()->clear_max_tokens();
  const GatewayReply reply = AskGateway(server, request);
  EXPECT_EQ(reply.completes.at(0).completion_tokens(), 1024 - kPrompt.size());
}

TEST(GatewayGenerateTest, ATextPromptIsTokenized) {
  TestServer server;
  GatewayPrompt request = GatewayGreedy({}, 5, false);
  request.set_text("abc");
  const GatewayReply reply = AskGateway(server, request);
  EXPECT_THAT(TokensOf(reply.completes.at(0)), ElementsAreArray(Expected(BytesAsTokens("abc"), 5)));
  EXPECT_EQ(reply.completes[0].prompt_tokens(), 3u);
}

TEST(GatewayGenerateTest, WrongAndUnsupportedFieldsAreRefused) {
  TestServer server;
  struct Case {
    std::string field;
    std::function<void(GatewayPrompt&)> change;
  };
  const auto params = [](auto change) {
    return [change](GatewayPrompt& request) { change(*request.mutable_sampling_params()); };
  };
  const Case cases[] = {
      {"sampling_params.json_schema", params([](auto& p) { p.set_json_schema("{}"); })},
      {"sampling_params.regex", params([](auto& p) { p.set_regex("a"); })},
      {"sampling_params.grammar", params([](auto& p) { p.set_grammar("a"); })},
      {"sampling_params.structural_tag", params([](auto& p) { p.set_structural_tag("a"); })},
      {"sampling_params.json_object", params([](auto& p) { p.set_json_object(false); })},
      {"sampling_params.choice", params([](auto& p) { p.mutable_choice()->add_choices("a"); })},
      {"sampling_params.prompt_logprobs", params([](auto& p) { p.set_prompt_logprobs(0); })},
      {"sampling_params.truncate_prompt_tokens",
       params([](auto& p) { p.set_truncate_prompt_tokens(5); })},
      {"sampling_params.logprobs", params([](auto& p) { p.set_logprobs(-1); })},
      {"sampling_params.logprobs", params([](auto& p) { p.set_logprobs(1 << 30); })},
      {"sampling_params.max_tokens", params([](auto& p) { p.set_max_tokens(0); })},
      {"sampling_params.min_tokens", params([](auto& p) { p.set_min_tokens(1u << 31); })},
      {"sampling_params.temperature", params([](auto& p) { p.set_temperature(-1); })},
      {"sampling_params.top_p", params([](auto& p) { p.set_top_p(2); })},
      {"sampling_params.n", params([](auto& p) { p.set_n(1u << 31); })},
      {"sampling_params.stop", params([](auto& p) {
         for (int i = 0; i < 17; ++i) p.add_stop("a");
       })},
      {"sampling_params.stop[0]", params([](auto& p) { p.add_stop(""); })},
      {"sampling_params.stop_token_ids[0]",
       params([](auto& p) { p.add_stop_token_ids(kByteVocab); })},
      {"sampling_params.logit_bias[4294967295]",
       params([](auto& p) { (*p.mutable_logit_bias())[-1] = 1; })},
      {"mm_inputs", [](auto& r) { r.mutable_mm_inputs(); }},
      {"extra_mm_inputs", [](auto& r) { r.add_extra_mm_inputs(); }},
      {"media_refs", [](auto& r) { r.mutable_media_refs(); }},
      {"kv_transfer_params", [](auto& r) { r.mutable_kv_transfer_params(); }},
      {"kv_transfer_params_json", [](auto& r) { r.set_kv_transfer_params_json("{}"); }},
      {"data_parallel_rank", [](auto& r) { r.set_data_parallel_rank(1); }},
      {"request_id", [](auto& r) { r.set_request_id(std::string(1025, 'a')); }},
      {"tokenized", [](auto& r) { r.clear_input(); }},
      {"tokenized.input_ids", [](auto& r) { r.mutable_tokenized()->clear_input_ids(); }},
      {"tokenized.input_ids[8]", [](auto& r) { r.mutable_tokenized()->add_input_ids(kByteVocab); }},
  };
  for (const Case& bad : cases) {
    GatewayPrompt request = GatewayGreedy(kPrompt, 5, true);
    bad.change(request);
    const GatewayReply reply = AskGateway(server, request);
    EXPECT_EQ(reply.status.error_code(), StatusCode::INVALID_ARGUMENT) << bad.field;
    EXPECT_EQ(FieldOf(reply.status), bad.field);
    EXPECT_THAT(reply.status.error_message(), HasSubstr(bad.field));
    EXPECT_TRUE(reply.chunks.empty() && reply.completes.empty());
  }
  EXPECT_TRUE(AskGateway(server, GatewayGreedy(kPrompt, 5, true)).status.ok());
}

TEST(GatewayGenerateTest, APromptWithoutRoomForOutputIsTooLong) {
  TestServer server;
  const GatewayReply reply =
      AskGateway(server, GatewayGreedy(std::vector<TokenId>(1024, 9), 1, true));
  EXPECT_EQ(reply.status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ReasonOf(reply.status), "PROMPT_TOO_LONG");
  EXPECT_EQ(FieldOf(reply.status), "tokenized.input_ids");
}

TEST(GatewayGenerateTest, AMalformedMessageIsRefused) {
  TestServer server;
  grpc::GenericStub stub(server.channel());
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const grpc::Slice slice("\xFF\xFF");
  auto call = stub.PrepareUnaryCall(&context, "/vllm.grpc.engine.VllmEngine/Generate",
                                    grpc::ByteBuffer(&slice, 1), &queue);
  call->StartCall();
  grpc::ByteBuffer response;
  grpc::Status status;
  call->Finish(&response, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  ASSERT_TRUE(queue.Next(&tag, &ok));
  EXPECT_EQ(ReasonOf(status), "MALFORMED_MESSAGE");
}

TEST(GatewayGenerateTest, AFullServerIsResourceExhausted) {
  TestServer server(SmallConfig([](Options& options) { options.requests_max = 1; }));
  server.gate().Close();
  GatewayCall first(server, GatewayGreedy(kPrompt, 5, true));
  server.AwaitLoad([](const auto& load) { return load.running() + load.waiting() == 1; });
  const GatewayReply second = AskGateway(server, GatewayGreedy(kPrompt, 5, true));
  EXPECT_EQ(second.status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ReasonOf(second.status), "QUEUE_FULL");
  server.gate().Open();
  EXPECT_THAT(first.End().Tokens(), ElementsAreArray(Expected(kPrompt, 5)));
}

TEST(GatewayGenerateTest, StreamsMaxHoldsForTheGatewayToo) {
  TestServer server(SmallConfig([](Options& options) { options.streams_max = 1; }));
  server.gate().Close();
  GatewayCall first(server, GatewayGreedy(kPrompt, 5, true));
  server.gate().AwaitWaiting();
  const GatewayReply second = AskGateway(server, GatewayGreedy(kPrompt, 5, true));
  EXPECT_EQ(second.status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ReasonOf(second.status), "TOO_MANY_STREAMS");
  server.gate().Open();
  EXPECT_TRUE(first.End().status.ok());
}

TEST(GatewayGenerateTest, KeptOutputIsBounded) {
  TestServer server(SmallConfig([](Options& options) { options.output_queue_bytes_max = 256; }));
  const GatewayReply whole = AskGateway(server, GatewayGreedy(kPrompt, 500, false));
  EXPECT_EQ(whole.status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ReasonOf(whole.status), "WRITE_STALLED");
  EXPECT_TRUE(whole.completes.empty());
  server.AwaitLoad([](const auto& load) { return load.used_blocks() == 0; });
  EXPECT_EQ(AskGateway(server, GatewayGreedy(kPrompt, 60, false)).completes.size(), 1u)
      << "the output of the first call must no longer count";
}

TEST(GatewayGenerateTest, KeptOutputIsCounted) {
  TestServer server;
  const std::string kept = "incipit_unread_output_bytes{state=\"kept\"}";
  EXPECT_EQ(server.Metric(kept), 0);
  server.gate().Close();
  GatewayCall call(server, GatewayGreedy(kPrompt, 50, false));
  server.gate().Allow(20);
  while (server.Metric(kept) == 0) {
  }
  server.gate().Open();
  EXPECT_TRUE(call.End().status.ok());
  while (server.Metric(kept) != 0) {
  }
}

TEST(GatewayGenerateTest, FailuresHaveNoCompleteMessage) {
  for (const bool streams : {false, true}) {
    TestServer server;
    server.gate().Close();
    GatewayCall call(server, GatewayGreedy(kPrompt, 20, streams));
    server.gate().AwaitWaiting();
    server.gate().Allow(4);
    server.gate().AwaitWaiting();
    server.gate().PoisonNext(0);
    server.gate().Open();
    const GatewayReply reply = call.End();
    EXPECT_EQ(reply.status.error_code(), StatusCode::INTERNAL);
    EXPECT_TRUE(reply.completes.empty());
  }
}

}  // namespace
}  // namespace incipit
