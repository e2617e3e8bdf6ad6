#include "server/rpc/call_starter.h"

#include <grpcpp/server_context.h>

#include <utility>

#include "base/status.h"
#include "server/rpc/call_key.h"
#include "server/rpc/call_metadata.h"
#include "server/rpc/error_details.h"
#include "server/session/request/request_error.h"

namespace incipit {
namespace {

// A gRPC call that ends immediately with an error.
class RefusedStream final : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  explicit RefusedStream(const absl::Status& status) { Finish(ToGrpcStatus(status)); }
  void OnDone() override { delete this; }
};

}  // namespace

grpc::ServerWriteReactor<grpc::ByteBuffer>* CallStarter::Start(
    grpc::CallbackServerContext& call, const grpc::ByteBuffer& bytes,
    std::shared_ptr<ResponseFormat> format, const PromptFields* fields, Read read) const {
  if (const absl::Status status = CheckKey(call, context_.keys); !status.ok()) {
    context_.metrics.OnRequestRejected(Reason::kInvalidApiKey);
    return new RefusedStream(status);
  }
  const std::string connection = call.peer();
  const Time arrival = context_.clock.Now();
  const Time deadline = DeadlineOf(call, arrival, context_.options.request_time_max);
  const std::shared_ptr<GenerateStream> stream =
      GenerateStream::Open(call, std::move(format), context_.clock, arrival, deadline);
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
    // The call has no message, possibly because the client has cancelled the call. The server knows
    // only after the end of the call whether the client has cancelled. Therefore, the callback of
    // OnDoneCall counts the call in the metrics as cancelled or as refused.
    const absl::Status status = read(session).status();
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
    if (fields == nullptr) return {};
    const PromptSize size = PromptSizeOf(bytes, *fields);
    return {.num_tokens_min = size.num_ids_min + context_.encoder.NumTokensMin(size.text_bytes),
            .field = size.text_bytes > 0 ? "text" : "token_ids.ids"};
  };
  context_.starter.Start(session, std::move(what), estimate,
                         [session, read = std::move(read)]() mutable { return read(session); });
  return stream.get();
}

absl::Status CallStarter::Track(const std::string& connection, GenerateStream& stream) const {
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

absl::StatusOr<std::string> CallStarter::Admit(const grpc::CallbackServerContext& call) const {
  INCIPIT_RETURN_IF_ERROR(CheckMetadataBytes(call, context_.options.metadata_bytes_max));
  INCIPIT_RETURN_IF_ERROR(context_.starter.CheckOpen());
  return TenantOf(call, context_.options.request);
}

}  // namespace incipit
