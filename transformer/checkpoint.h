// Declares Checkpoint, which reads the tensors of a model folder. The tensors are in one file, or
// in several files (shards) with an index file. The index file is untrusted, so its contents are
// checked.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mapped_file.h"
#include "transformer/safetensors.h"

namespace incipit {

inline constexpr int32_t kShardsMax = 4096;

// Maps the weight files of a model folder into memory, and lists their tensors. A Checkpoint can be
// moved but not copied. The bytes of tensors() stay valid until the Checkpoint is destroyed, even
// if the Checkpoint is moved.
class Checkpoint {
 public:
  // Opens model.safetensors in `folder`. If this file does not exist, opens the files (shards) that
  // model.safetensors.index.json names.
  //
  // Each shard must be a file in `folder`, not a link to another folder. Links within the cache of
  // Hugging Face are allowed. Returns NOT_FOUND if the folder contains no weights, and
  // INVALID_ARGUMENT if a file is malformed.
  static absl::StatusOr<Checkpoint> Open(const std::filesystem::path& folder);

  const StoredTensors& tensors() const { return tensors_; }
  // Returns the identity of each weight file, in ascending order of the file names.
  std::vector<FileIdentity> files() const;

 private:
  Checkpoint() = default;
  absl::Status AddFile(const std::filesystem::path& path, StoredTensors& tensors);
  absl::Status AddShards(const std::filesystem::path& folder);

  std::vector<MappedFile> files_;
  StoredTensors tensors_;
};

}  // namespace incipit
