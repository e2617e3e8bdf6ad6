#include "server/rpc/generate_stream.h"

#include <grpcpp/server_context.h>

namespace incipit {

std::shared_ptr<GenerateStream> GenerateStream::Open(grpc::CallbackServerContext& context,
                                                     std::shared_ptr<ResponseFormat> format,
                                                     const Clock& clock, Time arrival,
                                                     Time deadline) {
  std::shared_ptr<GenerateStream> stream(new GenerateStream(context, std::move(format)));
  stream->self_ = stream;
  stream->session_ = std::make_shared<Session>(stream, clock, arrival, deadline);
  return stream;
}

void GenerateStream::Deliver(OutputPart part) {
  messages_.clear();
  num_written_ = 0;
  const absl::Status status = format_->Write(std::move(part), session_->label(), messages_);
  if (!status.ok()) {
    messages_.clear();
    session_->Abandon(status);
    session_->OnCancelled();
  }
  WriteNext();
}

// Sends the next message. Copies the pointer `session_`, because OnDelivered may end the call,
// which clears `session_`. The copy keeps the session alive until OnDelivered returns.
void GenerateStream::WriteNext() {
  if (num_written_ < messages_.size()) {
    StartWrite(&messages_[num_written_++]);
  } else {
    std::shared_ptr<Session>(session_)->OnDelivered(true);
  }
}

void GenerateStream::End(const absl::Status& status) {
  if (on_finish_) on_finish_();
  Finish(format_->StatusOf(status));
}

void GenerateStream::Reset() { context_.TryCancel(); }

void GenerateStream::OnWriteDone(bool ok) {
  if (ok) {
    WriteNext();
  } else {
    std::shared_ptr<Session>(session_)->OnDelivered(false);
  }
}
void GenerateStream::OnCancel() { std::shared_ptr<Session>(session_)->OnCancelled(); }

void GenerateStream::OnDone() {
  if (on_done_) on_done_();
  session_.reset();
  self_.reset();
}

}  // namespace incipit
