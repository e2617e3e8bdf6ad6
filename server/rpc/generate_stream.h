// A gRPC call whose response is a stream with the output of one request.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "server/rpc/response_format.h"
#include "server/session/output_sink.h"
#include "server/session/session.h"

namespace grpc {
class CallbackServerContext;
}

namespace incipit {

// A gRPC call whose response is a stream of output. The GenerateStream exists until gRPC has called
// OnDone and the Session object of the call has been destroyed.
class GenerateStream final : public grpc::ServerWriteReactor<grpc::ByteBuffer>, public OutputSink {
 public:
  // Creates a GenerateStream and its session (the object that passes output to the GenerateStream).
  // `format` converts the output to messages. REQUIRES: `context` and `clock` outlive the gRPC
  // call.
  static std::shared_ptr<GenerateStream> Open(grpc::CallbackServerContext& context,
                                              std::shared_ptr<ResponseFormat> format,
                                              const Clock& clock, Time arrival, Time deadline);

  const std::shared_ptr<Session>& session() const { return session_; }
  // Sets a callback that is called once, before the final status is passed to gRPC. REQUIRES:
  // session() has not ended, and the GenerateStream has not been returned to gRPC yet.
  void OnFinishCall(std::function<void()> on_finish) { on_finish_ = std::move(on_finish); }
  // Sets a callback that is called once, after gRPC has ended the call. REQUIRES: session() has not
  // ended, and the GenerateStream has not been returned to gRPC yet.
  void OnDoneCall(std::function<void()> on_done) { on_done_ = std::move(on_done); }

  void Deliver(OutputPart part) override;
  void End(const absl::Status& status) override;
  void Reset() override;

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  GenerateStream(grpc::CallbackServerContext& context, std::shared_ptr<ResponseFormat> format)
      : context_(context), format_(std::move(format)) {}
  // Sends the next element of `messages_`. After the last element, calls Session::OnDelivered.
  void WriteNext();

  grpc::CallbackServerContext& context_;
  const std::shared_ptr<ResponseFormat> format_;
  std::function<void()> on_finish_, on_done_;
  // Pointer of the GenerateStream to itself, so that the object exists until OnDone clears `self_`.
  std::shared_ptr<GenerateStream> self_;
  std::shared_ptr<Session> session_;  // sends the output of the call; released by OnDone
  // Messages with the part of the output that is being sent. The first `num_written_` messages were
  // passed to gRPC.
  std::vector<grpc::ByteBuffer> messages_;
  size_t num_written_ = 0;
};

}  // namespace incipit
