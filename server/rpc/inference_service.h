// The gRPC service incipit.v1.Inference. gRPC threads only check limits and never wait. The threads
// that render chat templates and tokenize also parse the messages.
#pragma once

#include <incipit/v1/inference.grpc.pb.h>

#include <memory>

#include "absl/status/status.h"
#include "base/clock.h"
#include "server/metrics/metrics.h"
#include "server/options.h"
#include "server/rpc/call_starter.h"
#include "server/rpc/response_format.h"
#include "server/session/api_keys.h"
#include "server/session/call_tracker.h"
#include "server/session/prompt_encoder.h"
#include "server/session/request/checked_request.h"
#include "server/session/session_starter.h"
#include "text/tokenizer/tokenizer.h"

namespace incipit {

// The objects that an InferenceService uses. REQUIRES: all objects outlive the InferenceService.
struct InferenceContext {
  const Options& options;
  const ServedModel& model;
  const Tokenizer* tokenizer;  // null if the model has no tokenizer
  const PromptEncoder& encoder;
  SessionStarter& starter;
  CallTracker& calls;
  Metrics& metrics;
  const Clock& clock;
  const ApiKeys& keys;
};

// The base class of the service incipit.v1.Inference, in which requests and responses are
// serialized bytes, so that gRPC does not parse the requests.
using RawInferenceService = v1::Inference::WithRawCallbackMethod_Generate<
    v1::Inference::WithRawCallbackMethod_Chat<v1::Inference::WithRawCallbackMethod_Tokenize<
        v1::Inference::WithRawCallbackMethod_Detokenize<v1::Inference::Service>>>>;

class InferenceService final : public RawInferenceService {
 public:
  explicit InferenceService(const InferenceContext& context);

  grpc::ServerWriteReactor<grpc::ByteBuffer>* Generate(grpc::CallbackServerContext* call,
                                                       const grpc::ByteBuffer* bytes) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Chat(grpc::CallbackServerContext* call,
                                                   const grpc::ByteBuffer* bytes) override;
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* call,
                                     const grpc::ByteBuffer* bytes,
                                     grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Detokenize(grpc::CallbackServerContext* call,
                                       const grpc::ByteBuffer* bytes,
                                       grpc::ByteBuffer* response) override;

 private:
  // Handles `call`, a gRPC call with one response. Parses `bytes` as a Message on a thread that
  // renders chat templates and tokenizes. This thread then calls `work`, which fills the response.
  template <typename Message, typename Response>
  grpc::ServerUnaryReactor* RunText(grpc::CallbackServerContext& call,
                                    const grpc::ByteBuffer& bytes, grpc::ByteBuffer& response,
                                    absl::Status (InferenceService::*work)(const Message&,
                                                                           Response&) const);
  absl::Status TokenizeText(const v1::TokenizeRequest& message,
                            v1::TokenizeResponse& response) const;
  absl::Status DetokenizeIds(const v1::DetokenizeRequest& message,
                             v1::DetokenizeResponse& response) const;
  // Ends the call of `reactor` with `status`. If `status` is an error other than CANCELLED, counts
  // a rejected request in the metrics.
  void Finish(grpc::ServerUnaryReactor& reactor, const absl::Status& status) const;

  const InferenceContext context_;
  const CallStarter calls_;
  const std::shared_ptr<ResponseFormat> format_;
};

}  // namespace incipit
