#include "server/gateway/kv_event_stream.h"

#include <grpcpp/server_context.h>
#include <grpcpp/support/slice.h>
#include <smg/grpc/common/common.pb.h>

#include <utility>

#include "server/rpc/error_details.h"
#include "server/rpc/message_bytes.h"

namespace incipit {
namespace {

// Returns a buffer that refers to the bytes of `message` without a copy. The buffer keeps `message`
// alive.
grpc::ByteBuffer BytesOf(KvMessage message) {
  auto* const owner = new KvMessage(std::move(message));
  const grpc::Slice slice(
      const_cast<char*>((*owner)->data()), (*owner)->size(),
      [](void* pointer) { delete static_cast<KvMessage*>(pointer); }, owner);
  return grpc::ByteBuffer(&slice, 1);
}

// Converts `status` to the status that the client receives. Adds no error details to OUT_OF_RANGE.
// A gateway that receives OUT_OF_RANGE subscribes again with the start sequence number 0.
grpc::Status StatusOf(const absl::Status& status) {
  if (!absl::IsOutOfRange(status)) return ToGrpcStatus(status);
  return grpc::Status(grpc::StatusCode::OUT_OF_RANGE, MessageOf(status));
}

}  // namespace

grpc::ServerWriteReactor<grpc::ByteBuffer>* KvEventStream::Open(
    KvEventHub& hub, grpc::CallbackServerContext& context, const grpc::ByteBuffer& request) {
  std::shared_ptr<KvEventStream> stream(new KvEventStream(hub, context));
  stream->self_ = stream;
  KvEventStream* const opened = stream.get();
  smg::grpc::common::SubscribeKvEventsRequest message;
  absl::Status status = FromBytes(request, message);
  if (status.ok()) {
    // Send the initial metadata immediately for the start sequence number 0. A call with another
    // start sequence number waits, because `hub` may refuse the number. A refused call gets no
    // initial metadata.
    if (message.start_sequence_number() == 0) stream->Accept();
    status = hub.Subscribe(opened->id_, std::move(stream), message.start_sequence_number(),
                           message.load_records_before_first_batch());
  }
  if (!status.ok()) opened->End(status);
  return opened;
}

void KvEventStream::Accept() {
  if (!std::exchange(is_accepted_, true)) StartSendInitialMetadata();
}

void KvEventStream::Send(KvMessage message) {
  {
    MutexLock lock(mutex_);
    is_writing_ = true;
  }
  bytes_ = BytesOf(std::move(message));
  StartWrite(&bytes_);
}

void KvEventStream::End(const absl::Status& status) {
  {
    MutexLock lock(mutex_);
    if (is_writing_) {
      end_ = status;
      return;
    }
  }
  Finish(StatusOf(status));
}

void KvEventStream::Reset() { context_.TryCancel(); }

void KvEventStream::OnWriteDone(bool ok) {
  std::optional<absl::Status> end;
  {
    MutexLock lock(mutex_);
    is_writing_ = false;
    end = end_;
  }
  if (end) {
    Finish(StatusOf(*end));
  } else {
    hub_.OnSent(id_, ok);
  }
}

void KvEventStream::OnCancel() { hub_.Cancel(id_); }

void KvEventStream::OnDone() { self_.reset(); }

}  // namespace incipit
