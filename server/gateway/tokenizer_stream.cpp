#include "server/gateway/tokenizer_stream.h"

#include <utility>

#include "server/rpc/error_details.h"
#include "server/session/request/request_error.h"

namespace incipit {

void TokenizerStream::Begin(
    absl::StatusOr<std::shared_ptr<const TokenizerArchive::Chunks>> chunks) {
  if (!chunks.ok()) {
    Finish(ToGrpcStatus(chunks.status()));
    return;
  }
  chunks_ = *std::move(chunks);
  WriteNext();
}

void TokenizerStream::OnWriteDone(bool ok) {
  if (ok) {
    WriteNext();
  } else {
    Finish(ToGrpcStatus(Refuse(Reason::kCancelled, "the client has cancelled the call")));
  }
}

void TokenizerStream::WriteNext() {
  if (num_written_ == chunks_->size()) {
    Finish(grpc::Status::OK);
  } else {
    StartWrite(&(*chunks_)[num_written_++]);
  }
}

}  // namespace incipit
