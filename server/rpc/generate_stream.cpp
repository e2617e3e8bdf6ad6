#include "server/rpc/generate_stream.h"

#include <grpcpp/server_context.h>
#include <incipit/v1/inference.pb.h>

#include "server/rpc/error_details.h"
#include "server/rpc/message_bytes.h"
#include "server/rpc/response_writer.h"

namespace incipit {

std::shared_ptr<GenerateStream> GenerateStream::Open(grpc::CallbackServerContext& context,
                                                     const Clock& clock, Time arrival,
                                                     Time deadline) {
  std::shared_ptr<GenerateStream> stream(new GenerateStream(context));
  stream->self_ = stream;
  stream->session_ = std::make_shared<Session>(stream, clock, arrival, deadline);
  return stream;
}

void GenerateStream::Deliver(OutputPart part) {
  ToBytes(ResponseOf(std::move(part), session_->label()), bytes_);
  StartWrite(&bytes_);
}

void GenerateStream::End(const absl::Status& status) {
  if (on_finish_) on_finish_();
  Finish(ToGrpcStatus(status));
}

void GenerateStream::Reset() { context_.TryCancel(); }

// Copies the pointer `session_`, so that the session exists until OnDelivered returns, even if
// OnDelivered ends the call.
void GenerateStream::OnWriteDone(bool ok) { std::shared_ptr<Session>(session_)->OnDelivered(ok); }
void GenerateStream::OnCancel() { std::shared_ptr<Session>(session_)->OnCancelled(); }

void GenerateStream::OnDone() {
  if (on_done_) on_done_();
  session_.reset();
  self_.reset();
}

}  // namespace incipit
