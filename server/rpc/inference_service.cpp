#include "server/rpc/inference_service.h"

#include <grpcpp/server_context.h>

#include <utility>

#include "base/status.h"
#include "server/rpc/call_key.h"
#include "server/rpc/call_metadata.h"
#include "server/rpc/error_details.h"
#include "server/rpc/message_bytes.h"
#include "server/rpc/request_reader.h"
#include "server/rpc/response_writer.h"

namespace incipit {
namespace {

absl::Status NoTokenizer(std::string_view what) {
  return Refuse(Reason::kNoTokenizer,
                fmt::format("{} needs a tokenizer, but this model has no tokenizer", what));
}

}  // namespace

InferenceService::InferenceService(const InferenceContext& context)
    : context_(context),
      calls_({context.options, context.encoder, context.starter, context.calls, context.keys,
              context.metrics, context.clock}),
      format_(std::make_shared<GenerateResponseFormat>()) {}

grpc::ServerWriteReactor<grpc::ByteBuffer>* InferenceService::Generate(
    grpc::CallbackServerContext* call, const grpc::ByteBuffer* bytes) {
  static constexpr PromptFields kFields = {
      .text = v1::GenerateRequest::kTextFieldNumber,
      .token_ids = v1::GenerateRequest::kTokenIdsFieldNumber,
      .ids = v1::TokenIds::kIdsFieldNumber,
  };
  return calls_.Start(*call, *bytes, format_, &kFields,
                      [this, copy = *bytes](const std::shared_ptr<Session>&) {
                        return ReadDraft<v1::GenerateRequest>(copy, context_.options.request);
                      });
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* InferenceService::Chat(
    grpc::CallbackServerContext* call, const grpc::ByteBuffer* bytes) {
  return calls_.Start(*call, *bytes, format_, nullptr,
                      [this, copy = *bytes](const std::shared_ptr<Session>&) {
                        return ReadDraft<v1::ChatRequest>(copy, context_.options.request);
                      });
}

grpc::ServerUnaryReactor* InferenceService::Tokenize(grpc::CallbackServerContext* call,
                                                     const grpc::ByteBuffer* bytes,
                                                     grpc::ByteBuffer* response) {
  return RunText(*call, *bytes, *response, &InferenceService::TokenizeText);
}

grpc::ServerUnaryReactor* InferenceService::Detokenize(grpc::CallbackServerContext* call,
                                                       const grpc::ByteBuffer* bytes,
                                                       grpc::ByteBuffer* response) {
  return RunText(*call, *bytes, *response, &InferenceService::DetokenizeIds);
}

void InferenceService::Finish(grpc::ServerUnaryReactor& reactor, const absl::Status& status) const {
  if (!status.ok() && status.code() != absl::StatusCode::kCancelled) {
    context_.metrics.OnRequestRejected(ErrorOf(status).reason);
  }
  reactor.Finish(ToGrpcStatus(status));
}

template <typename Message, typename Response>
grpc::ServerUnaryReactor* InferenceService::RunText(
    grpc::CallbackServerContext& call, const grpc::ByteBuffer& bytes, grpc::ByteBuffer& response,
    absl::Status (InferenceService::*work)(const Message&, Response&) const) {
  grpc::ServerUnaryReactor* const reactor = call.DefaultReactor();
  absl::Status status = CheckKey(call, context_.keys);
  if (status.ok()) status = CheckMetadataBytes(call, context_.options.metadata_bytes_max);
  if (!status.ok()) {
    Finish(*reactor, status);
    return reactor;
  }
  const auto run = [this, work, &call, &response, copy = bytes]() -> absl::Status {
    if (call.IsCancelled())
      return Refuse(Reason::kCancelled, "the client has cancelled the call or disconnected");
    Message message;
    INCIPIT_RETURN_IF_ERROR(FromBytes(copy, message));
    Response filled;
    INCIPIT_RETURN_IF_ERROR((this->*work)(message, filled));
    ToBytes(filled, response);
    return absl::OkStatus();
  };
  context_.starter.RunText(call.peer(), {.num_bytes = static_cast<int64_t>(bytes.Length())},
                           /*tokens_behind=*/0, [this, reactor, run](const absl::Status& room) {
                             Finish(*reactor, room.ok() ? run() : room);
                           });
  return reactor;
}

absl::Status InferenceService::TokenizeText(const v1::TokenizeRequest& message,
                                            v1::TokenizeResponse& response) const {
  if (context_.tokenizer == nullptr) return NoTokenizer("Tokenize");
  const bool adds = !message.has_add_special_tokens() || message.add_special_tokens();
  INCIPIT_ASSIGN_OR_RETURN(const auto tokens, context_.encoder.EncodeText(message.text(), adds));
  response.mutable_ids()->Add(tokens.begin(), tokens.end());
  return absl::OkStatus();
}

absl::Status InferenceService::DetokenizeIds(const v1::DetokenizeRequest& message,
                                             v1::DetokenizeResponse& response) const {
  if (context_.tokenizer == nullptr) return NoTokenizer("Detokenize");
  INCIPIT_ASSIGN_OR_RETURN(
      *response.mutable_text(),
      context_.encoder.DecodeIds("ids", TokensOf(message.ids()), message.skip_special_tokens(),
                                 context_.model, context_.options.request));
  return absl::OkStatus();
}

}  // namespace incipit
