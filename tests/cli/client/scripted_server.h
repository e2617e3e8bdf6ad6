// A gRPC server on a free loopback port. The test supplies the functions that reply to calls.
#pragma once

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "incipit/v1/admin.grpc.pb.h"
#include "incipit/v1/inference.grpc.pb.h"

namespace incipit {

class ScriptedServer final : public v1::Inference::Service, public v1::Admin::Service {
 public:
  using Stream = grpc::ServerWriter<v1::GenerateResponse>;

  ScriptedServer() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(static_cast<v1::Inference::Service*>(this));
    builder.RegisterService(static_cast<v1::Admin::Service*>(this));
    server_ = builder.BuildAndStart();
    model.set_vocab_size(512);
    model.set_max_model_len(1024);
    model.set_has_tokenizer(true);
  }

  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  // Functions that return the replies of the server. REQUIRES: set before the first call.
  std::function<grpc::Status(const v1::GenerateRequest&, grpc::ServerContext*, Stream*)> generate;
  std::function<grpc::Status(const v1::ChatRequest&, Stream*)> chat;
  v1::GetModelInfoResponse model;
  // Loads that successive calls of GetLoad return. The last load is returned again and again. If
  // there is no load, GetLoad is unimplemented.
  std::vector<v1::GetLoadResponse> loads;
  uint32_t special_begin = 0, special_end = 3;

  grpc::Status Generate(grpc::ServerContext* context, const v1::GenerateRequest* request,
                        Stream* stream) override {
    return generate(*request, context, stream);
  }
  grpc::Status Chat(grpc::ServerContext*, const v1::ChatRequest* request, Stream* stream) override {
    return chat(*request, stream);
  }
  grpc::Status Detokenize(grpc::ServerContext*, const v1::DetokenizeRequest* request,
                          v1::DetokenizeResponse* response) override {
    for (const uint32_t id : request->ids()) {
      const bool is_special = id >= special_begin && id < special_end;
      if (!is_special || !request->skip_special_tokens()) response->mutable_text()->append("x");
    }
    return grpc::Status::OK;
  }
  grpc::Status GetModelInfo(grpc::ServerContext*, const v1::GetModelInfoRequest*,
                            v1::GetModelInfoResponse* response) override {
    *response = model;
    return grpc::Status::OK;
  }

  grpc::Status GetLoad(grpc::ServerContext*, const v1::GetLoadRequest*,
                       v1::GetLoadResponse* response) override {
    const MutexLock lock(mutex_);
    if (loads.empty()) return {grpc::StatusCode::UNIMPLEMENTED, ""};
    *response = loads[std::min(num_loads_++, loads.size() - 1)];
    return grpc::Status::OK;
  }

 private:
  int port_ = 0;
  Mutex mutex_;
  size_t num_loads_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<grpc::Server> server_;
};

// Returns a message with the text and the token ids of choice 0.
inline v1::GenerateResponse Piece(const std::string& text, const std::vector<uint32_t>& ids) {
  v1::GenerateResponse response;
  v1::Delta& delta = *response.add_deltas();
  delta.set_text(text);
  delta.mutable_token_ids()->Assign(ids.begin(), ids.end());
  return response;
}

// Returns the last message of a stream. Its usage contains the three numbers of tokens.
inline v1::GenerateResponse LastPiece(uint32_t prompt, uint32_t cached, uint32_t completion) {
  v1::GenerateResponse response;
  response.set_request_id("r1");
  response.add_deltas()->set_finish_reason(v1::FINISH_REASON_LENGTH);
  response.mutable_usage()->set_prompt_tokens(prompt);
  response.mutable_usage()->set_cached_tokens(cached);
  response.mutable_usage()->set_completion_tokens(completion);
  response.mutable_usage()->set_queue_seconds(0.0015);
  response.mutable_usage()->set_time_to_first_token_seconds(0.25);
  return response;
}

// Returns INVALID_ARGUMENT with a field violation and a retry delay, in the format of the server.
grpc::Status DetailedError();

}  // namespace incipit
