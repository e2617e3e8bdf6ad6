// A gRPC call that sends the tokenizer of the model to a gateway.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <memory>

#include "absl/status/statusor.h"
#include "server/gateway/tokenizer_archive.h"

namespace incipit {

// A call of GetTokenizer. Sends one chunk at a time. The calls share the memory of the chunks, so a
// client that does not read costs little memory. Deletes itself after the end of the call.
class TokenizerStream final : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  // Sends `chunks`, or ends the call with the error. Called once, on any thread.
  void Begin(absl::StatusOr<std::shared_ptr<const TokenizerArchive::Chunks>> chunks);

  void OnWriteDone(bool ok) override;
  void OnDone() override { delete this; }

 private:
  // Sends the next chunk. After the last chunk, ends the call.
  void WriteNext();

  std::shared_ptr<const TokenizerArchive::Chunks> chunks_;
  size_t num_written_ = 0;
};

}  // namespace incipit
