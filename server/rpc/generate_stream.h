// A streaming call of incipit.v1 (Generate or Chat), which is the sink of one session.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <functional>
#include <memory>
#include <utility>

#include "base/clock.h"
#include "server/session/output_sink.h"
#include "server/session/session.h"

namespace grpc {
class CallbackServerContext;
}

namespace incipit {

// A stream has two owners: gRPC, from Open to OnDone, and the session of the stream. Either owner
// may release the stream first.
class GenerateStream final : public grpc::ServerWriteReactor<grpc::ByteBuffer>, public OutputSink {
 public:
  // Creates a stream with its session. `context` and `clock` must outlive the call.
  static std::shared_ptr<GenerateStream> Open(grpc::CallbackServerContext& context,
                                              const Clock& clock, Time arrival, Time deadline);

  const std::shared_ptr<Session>& session() const { return session_; }
  // Sets the callback that runs once, before gRPC receives the status of the call. REQUIRES: the
  // session has not ended and the handler has not returned.
  void OnFinishCall(std::function<void()> on_finish) { on_finish_ = std::move(on_finish); }
  // Sets the callback that runs once, when gRPC has finished the call. REQUIRES: the session has
  // not ended and the handler has not returned.
  void OnDoneCall(std::function<void()> on_done) { on_done_ = std::move(on_done); }

  void Deliver(OutputPart part) override;
  void End(const absl::Status& status) override;
  void Reset() override;

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  explicit GenerateStream(grpc::CallbackServerContext& context) : context_(context) {}

  grpc::CallbackServerContext& context_;
  std::function<void()> on_finish_, on_done_;
  std::shared_ptr<GenerateStream> self_;  // keeps the stream alive until OnDone
  std::shared_ptr<Session> session_;      // session of the call; released by OnDone
  grpc::ByteBuffer bytes_;                // message of the write in flight
};

}  // namespace incipit
