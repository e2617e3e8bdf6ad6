// A gRPC call that sends the tokenizer of the model to a gateway.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <memory>

#include "absl/status/statusor.h"
#include "server/gateway/tokenizer_archive.h"

namespace incipit {

// A call of the gRPC method GetTokenizer. Sends the tokenizer in chunks (messages), one at a time.
// All calls share the memory of the chunks, so a client that does not read costs little memory. The
// object deletes itself after the end of the call.
class TokenizerStream final : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  // Starts to send `chunks`. If `chunks` is an error, ends the call with this error. Called once,
  // on any thread.
  void Begin(absl::StatusOr<std::shared_ptr<const TokenizerArchive::Chunks>> chunks);

  void OnWriteDone(bool ok) override;
  void OnDone() override { delete this; }

 private:
  // Starts to send the next chunk. If all chunks were sent, ends the call.
  void WriteNext();

  std::shared_ptr<const TokenizerArchive::Chunks> chunks_;
  size_t num_written_ = 0;
};

}  // namespace incipit
