// Packs the files of the model's tokenizer into messages for a gateway. A gateway uses the files to
// convert prompts to token ids.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "server/options.h"

namespace incipit {

// Reads the tokenizer files of a model folder on the first use. Keeps a zip archive of the files in
// memory, divided into the response messages of the gateway's call GetTokenizer. Thread-safe.
class TokenizerArchive {
 public:
  // Parts of the archive as serialized GetTokenizerChunk messages, in order. A copy of a Chunks
  // object shares the memory of the messages.
  using Chunks = std::vector<grpc::ByteBuffer>;

  // Packs the files of the model folder `folder`. `chat_template` selects the chat template in the
  // archive: the file of the model folder, another file, or none.
  TokenizerArchive(std::filesystem::path folder, FileChoice chat_template)
      : folder_(std::move(folder)), chat_template_(std::move(chat_template)) {}

  // Returns the messages with the archive of the tokenizer files. Returns NO_TOKENIZER if the
  // folder has no tokenizer.json, and another error if a file cannot be read. Do not call Get on a
  // gRPC thread, because the first call reads files of many megabytes.
  absl::StatusOr<std::shared_ptr<const Chunks>> Get();
  // Returns the messages with the archive of the tokenizer files, or null if no call of Get has
  // read the files yet. Does not wait for a running call of Get.
  std::shared_ptr<const Chunks> GetIfReady();

 private:
  const std::filesystem::path folder_;
  const FileChoice chat_template_;
  Mutex reading_;  // locked while Get reads the tokenizer files
  Mutex mutex_;
  // Messages with the archive of the tokenizer files; null until Get has read these files.
  std::shared_ptr<const Chunks> chunks_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace incipit
