// The files of the model's tokenizer, as messages for a gateway. A gateway tokenizes prompts
// itself.
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

// Reads the tokenizer files of a model folder on the first use, and keeps the messages with a zip
// archive of the files. Thread-safe.
class TokenizerArchive {
 public:
  // The serialized messages GetTokenizerChunk, in order. Copies share the memory of the messages.
  using Chunks = std::vector<grpc::ByteBuffer>;

  // `chat_template` is the chat template that replaces the chat template in `folder`.
  TokenizerArchive(std::filesystem::path folder, FileChoice chat_template)
      : folder_(std::move(folder)), chat_template_(std::move(chat_template)) {}

  // Returns the messages. Returns NO_TOKENIZER if the folder has no tokenizer.json, and an error if
  // a file cannot be read. Should not be called on a gRPC thread, because the first call reads
  // files of many megabytes.
  absl::StatusOr<std::shared_ptr<const Chunks>> Get();
  // Returns the messages, or null if Get has not returned them yet. Does not wait for Get.
  std::shared_ptr<const Chunks> GetIfReady();

 private:
  const std::filesystem::path folder_;
  const FileChoice chat_template_;
  Mutex reading_;  // held while files are read
  Mutex mutex_;
  std::shared_ptr<const Chunks> chunks_ ABSL_GUARDED_BY(mutex_);  // null before the first use
};

}  // namespace incipit
