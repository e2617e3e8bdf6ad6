// The gRPC service incipit.v1.Inference. The gRPC threads only check limits and never wait; text
// threads parse the messages.
#pragma once

#include <incipit/v1/inference.grpc.pb.h>

#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "server/metrics/metrics.h"
#include "server/options.h"
#include "server/rpc/generate_stream.h"
#include "server/rpc/prompt_size.h"
#include "server/session/api_keys.h"
#include "server/session/call_tracker.h"
#include "server/session/checked_request.h"
#include "server/session/prompt_encoder.h"
#include "server/session/session_starter.h"
#include "text/tokenizer/tokenizer.h"

namespace incipit {

// The objects that InferenceService uses. REQUIRES: all objects outlive the service.
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

// The service incipit.v1.Inference, in which requests and responses are serialized bytes.
using RawInferenceService = v1::Inference::WithRawCallbackMethod_Generate<
    v1::Inference::WithRawCallbackMethod_Chat<v1::Inference::WithRawCallbackMethod_Tokenize<
        v1::Inference::WithRawCallbackMethod_Detokenize<v1::Inference::Service>>>>;

class InferenceService final : public RawInferenceService {
 public:
  explicit InferenceService(const InferenceContext& context) : context_(context) {}

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
  // A function that returns the size of the prompt in a serialized request. Null: the size is
  // unknown until the request is parsed.
  using SizeOf = PromptSize (*)(const grpc::ByteBuffer& bytes);
  // Starts a session for a call of Generate or Chat. A text thread (a thread that prepares requests
  // for the engine) calls `read` to parse the message.
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Start(grpc::CallbackServerContext& call,
                                                    const grpc::ByteBuffer& bytes, SizeOf size_of,
                                                    SessionStarter::Read read);
  // Counts a new call of the connection named `connection`. Returns TOO_MANY_STREAMS if a limit on
  // the number of calls is reached.
  absl::Status Track(const std::string& connection, GenerateStream& stream);
  // Checks the metadata of `call`, and that the engine accepts requests. Returns the name of the
  // tenant.
  absl::StatusOr<std::string> Admit(const grpc::CallbackServerContext& call) const;
  // Handles a call with one response: a text thread (a thread that prepares requests) parses
  // `bytes` and calls `work`, which fills the response.
  template <typename Message, typename Response>
  grpc::ServerUnaryReactor* RunText(grpc::CallbackServerContext& call,
                                    const grpc::ByteBuffer& bytes, grpc::ByteBuffer& response,
                                    absl::Status (InferenceService::*work)(const Message&,
                                                                           Response&) const);
  absl::Status TokenizeText(const v1::TokenizeRequest& message,
                            v1::TokenizeResponse& response) const;
  absl::Status DetokenizeIds(const v1::DetokenizeRequest& message,
                             v1::DetokenizeResponse& response) const;
  // Ends a call with one response. Counts a rejected request in the metrics unless `status` is OK
  // or CANCELLED.
  void Finish(grpc::ServerUnaryReactor& reactor, const absl::Status& status) const;

  const InferenceContext context_;
};

}  // namespace incipit
