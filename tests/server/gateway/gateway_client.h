// A client of vllm.grpc.engine.VllmEngine for tests.
#pragma once

#include <gtest/gtest.h>
#include <vllm/grpc/engine/vllm_engine.grpc.pb.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/test_server.h"

namespace incipit {

using VllmEngine = vllm::grpc::engine::VllmEngine;
using GatewayPrompt = vllm::grpc::engine::GenerateRequest;
using GatewayComplete = vllm::grpc::engine::GenerateComplete;
using GatewayChunk = vllm::grpc::engine::GenerateStreamChunk;

// The whole response to a call of VllmEngine.Generate.
struct GatewayReply {
  grpc::Status status;
  std::vector<GatewayChunk> chunks;
  std::vector<GatewayComplete> completes;

  // Returns the tokens of all chunks of choice number `choice`.
  std::vector<TokenId> Tokens(uint32_t choice = 0) const {
    std::vector<TokenId> tokens;
    for (const GatewayChunk& chunk : chunks) {
      if (chunk.index() != choice) continue;
      for (const uint32_t id : chunk.token_ids()) tokens.push_back(static_cast<TokenId>(id));
    }
    return tokens;
  }
};

inline std::vector<TokenId> TokensOf(const GatewayComplete& complete) {
  return {complete.output_ids().begin(), complete.output_ids().end()};
}

// Reads a stream to its end.
inline GatewayReply CollectGateway(
    grpc::ClientReader<vllm::grpc::engine::GenerateResponse>& reader) {
  GatewayReply reply;
  vllm::grpc::engine::GenerateResponse message;
  while (reader.Read(&message)) {
    if (message.has_chunk()) reply.chunks.push_back(message.chunk());
    if (message.has_complete()) reply.completes.push_back(message.complete());
  }
  reply.status = reader.Finish();
  return reply;
}

// Returns a request for greedy sampling of `num_tokens` tokens after the token ids `prompt`.
inline GatewayPrompt GatewayGreedy(const std::vector<TokenId>& prompt, uint32_t num_tokens,
                                   bool streams) {
  GatewayPrompt request;
  request.set_request_id("gateway-request");
  for (const TokenId token : prompt) {
    request.mutable_tokenized()->add_input_ids(static_cast<uint32_t>(token));
  }
  auto& params = *request.mutable_sampling_params();
  params.set_temperature(0);
  params.set_seed(0);
  params.set_top_p(1);
  params.set_repetition_penalty(1);
  params.set_max_tokens(num_tokens);
  params.set_n(1);
  params.set_skip_special_tokens(true);
  request.set_stream(streams);
  return request;
}

inline GatewayReply AskGateway(TestServer& server, const GatewayPrompt& request) {
  grpc::ClientContext context;
  const auto stub = VllmEngine::NewStub(server.channel());
  return CollectGateway(*stub->Generate(&context, request));
}

// A Generate call whose response a separate thread reads.
class GatewayCall {
 public:
  GatewayCall(TestServer& server, const GatewayPrompt& request)
      : stub_(VllmEngine::NewStub(server.channel())), reader_(stub_->Generate(&context_, request)) {
    thread_ = std::thread([this] { reply_ = CollectGateway(*reader_); });
  }
  ~GatewayCall() {
    if (thread_.joinable()) thread_.join();
  }
  void Cancel() { context_.TryCancel(); }
  GatewayReply End() {
    thread_.join();
    return reply_;
  }

 private:
  grpc::ClientContext context_;
  const std::unique_ptr<VllmEngine::Stub> stub_;
  const std::unique_ptr<grpc::ClientReader<vllm::grpc::engine::GenerateResponse>> reader_;
  GatewayReply reply_;
  std::thread thread_;
};

}  // namespace incipit
