// Declares the tensors of a model folder, which are stored in a single file or in several files
// (shards). Only this class reads the index file of the shards. The index file is untrusted, so its
// contents are checked.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mapped_file.h"
#include "transformer/safetensors.h"

namespace incipit {

inline constexpr int32_t kShardsMax = 4096;

// Read-only mappings of the weight files of a folder, and the tensors in these files. Move-only.
// The bytes of `tensors()` stay valid until the checkpoint is destroyed, even if the checkpoint is
// moved.
class Checkpoint {
 public:
  // Opens model.safetensors. If this file does not exist, opens the files (shards) that
  // model.safetensors.index.json names. A shard must be a file of the folder: a shard name with a
  // path and a link to another folder are errors. Links of the Hugging Face cache (from
  // snapshots/<revision>/ to blobs/) are allowed. Returns NOT_FOUND if the folder has no weights.
  // Returns INVALID_ARGUMENT if a file is malformed; the message names the file and the tensor.
  static absl::StatusOr<Checkpoint> Open(const std::filesystem::path& folder);

  const StoredTensors& tensors() const { return tensors_; }

 private:
  Checkpoint() = default;
  absl::Status AddFile(const std::filesystem::path& path, StoredTensors& tensors);
  absl::Status AddShards(const std::filesystem::path& folder);

  std::vector<MappedFile> files_;
  StoredTensors tensors_;
};

}  // namespace incipit
