#include "server/rpc/inference_service.h"

#include <grpcpp/server_context.h>

#include <utility>

#include "base/status.h"
#include "server/rpc/call_key.h"
#include "server/rpc/call_metadata.h"
#include "server/rpc/error_details.h"
#include "server/rpc/message_bytes.h"
#include "server/rpc/request_reader.h"

namespace incipit {
namespace {

absl::Status NoTokenizer(std::string_view what) {
  return Refuse(Reason::kNoTokenizer,
                fmt::format("{} needs a tokenizer, and this model has none", what));
}

// A call of Generate or Chat that ends immediately with an error.
class RefusedStream final : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  explicit RefusedStream(const absl::Status& status) { Finish(ToGrpcStatus(status)); }
  void OnDone() override { delete this; }
};

}  // namespace

grpc::ServerWriteReactor<grpc::ByteBuffer>* InferenceService::Generate(
    grpc::CallbackServerContext* call, const grpc::ByteBuffer* bytes) {
  return Start(*call, *bytes, &PromptSizeOf, [this, copy = *bytes] {
    return ReadDraft<v1::GenerateRequest>(copy, context_.options.request);
  });
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* InferenceService::Chat(
    grpc::CallbackServerContext* call, const grpc::ByteBuffer* bytes) {
  return Start(*call, *bytes, nullptr, [this, copy = *bytes] {
    return ReadDraft<v1::ChatRequest>(copy, context_.options.request);
  });
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* InferenceService::Start(
    grpc::CallbackServerContext& call, const grpc::ByteBuffer& bytes, SizeOf size_of,
    SessionStarter::Read read) {
  if (const absl::Status status = CheckKey(call, context_.keys); !status.ok()) {
    context_.metrics.OnRequestRejected(Reason::kInvalidApiKey);
    return new RefusedStream(status);
  }
  const std::string connection = call.peer();
  const Time arrival = context_.clock.Now();
  const Time deadline = DeadlineOf(call, arrival, context_.options.request_time_max);
  const std::shared_ptr<GenerateStream> stream =
      GenerateStream::Open(call, context_.clock, arrival, deadline);
  const std::shared_ptr<Session>& session = stream->session();
  if (const absl::Status status = Track(connection, *stream); !status.ok()) {
    context_.starter.Refuse(*session, status);
    return stream.get();
  }
  absl::StatusOr<std::string> tenant = Admit(call);
  if (!tenant.ok()) {
    context_.starter.Refuse(*session, tenant.status());
    return stream.get();
  }
  if (!bytes.Valid()) {
    // The call has no message, possibly because the client has cancelled the call. A cancellation
    // is known only at the end of the call, so Refuse is called in OnDoneCall.
    const absl::Status status = read().status();
    stream->OnDoneCall([this, ended = stream.get(), status] {
      context_.starter.Refuse(*ended->session(), status);
      context_.calls.End();
    });
    session->End(status);
    return stream.get();
  }
  RequestArrival what;
  what.connection = connection;
  what.tenant = *std::move(tenant);
  what.num_bytes = static_cast<int64_t>(bytes.Length());
  const auto estimate = [&]() -> PromptEstimate {
    if (size_of == nullptr) return {};
    const PromptSize size = size_of(bytes);
    return {.num_tokens_min = size.num_ids_min + context_.encoder.NumTokensMin(size.text_bytes),
            .field = size.text_bytes > 0 ? "text" : "token_ids.ids"};
  };
  context_.starter.Start(session, std::move(what), estimate, std::move(read));
  return stream.get();
}

absl::Status InferenceService::Track(const std::string& connection, GenerateStream& stream) {
  CallTracker& calls = context_.calls;
  switch (calls.Begin(connection)) {
    case CallTracker::Verdict::kAdmitted:
      stream.OnFinishCall([&calls, connection] { calls.Release(connection); });
      stream.OnDoneCall([&calls] { calls.End(); });
      return absl::OkStatus();
    case CallTracker::Verdict::kTooMany:
      return context_.starter.Busy(Reason::kTooManyStreams,
                                   fmt::format("too many calls are in progress; streams-max is {}",
                                               context_.options.streams_max),
                                   context_.options.streams_max);
    case CallTracker::Verdict::kTooManyOfConnection:
      break;
  }
  return context_.starter.Busy(
      Reason::kTooManyStreams,
      fmt::format("too many calls of one connection are in progress; connection-streams-max is {}",
                  context_.options.connection_streams_max),
      context_.options.connection_streams_max);
}

absl::StatusOr<std::string> InferenceService::Admit(const grpc::CallbackServerContext& call) const {
  INCIPIT_RETURN_IF_ERROR(CheckMetadataBytes(call, context_.options.metadata_bytes_max));
  INCIPIT_RETURN_IF_ERROR(context_.starter.CheckOpen());
  return TenantOf(call, context_.options.request);
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
