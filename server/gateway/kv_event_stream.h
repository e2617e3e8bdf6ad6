// A gRPC call that sends the changes of the prefix cache to a gateway.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "server/gateway/kv_event_hub.h"

namespace grpc {
class CallbackServerContext;
}

namespace incipit {

// A call of the gRPC method SubscribeKvEvents. The object exists until gRPC has called OnDone and
// the KvEventHub has removed the subscription.
class KvEventStream final : public grpc::ServerWriteReactor<grpc::ByteBuffer>, public KvSubscriber {
 public:
  // Starts the call with the serialized SubscribeKvEventsRequest `request`. gRPC owns the result.
  // REQUIRES: `hub` and `context` outlive the call.
  static grpc::ServerWriteReactor<grpc::ByteBuffer>* Open(KvEventHub& hub,
                                                          grpc::CallbackServerContext& context,
                                                          const grpc::ByteBuffer& request);

  // Sends the initial metadata. Until the initial metadata arrive, a gateway regards the server as
  // unreachable. If the KvEventHub refuses the start position of the call with OUT_OF_RANGE, Accept
  // is not called. A gateway subscribes again from position 0 only if a refused call sent no
  // initial metadata.
  void Accept() override;
  void Send(KvMessage message) override;
  void End(const absl::Status& status) override;
  void Reset() override;

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  KvEventStream(KvEventHub& hub, grpc::CallbackServerContext& context)
      : hub_(hub), context_(context), id_(hub.NewId()) {}

  KvEventHub& hub_;
  grpc::CallbackServerContext& context_;
  const uint64_t id_;
  // Pointer of the object to itself, so that the object exists until OnDone clears `self_`.
  std::shared_ptr<KvEventStream> self_;
  // True after the first call of Accept. Used by Open before the subscription, and later only by
  // the thread of the KvEventHub.
  bool is_accepted_ = false;
  grpc::ByteBuffer bytes_;  // message that gRPC is sending to the client

  Mutex mutex_;
  bool is_writing_ ABSL_GUARDED_BY(mutex_) = false;
  // Status with which OnWriteDone must end the call; absent if the call continues.
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace incipit
