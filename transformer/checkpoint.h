// The tensors of a model folder, in a single file or in shards. Only this class reads the index
// file of the shards. An index file is untrusted input, so its contents are checked.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mapped_file.h"
#include "transformer/safetensors.h"

namespace incipit {

inline constexpr int32_t kShardsMax = 4096;

// Read-only mappings of the weight files of a folder, and the tensors in them. Move-only. The bytes
// of `tensors()` stay valid until the checkpoint is destroyed, even if it is moved.
class Checkpoint {
 public:
  // Opens model.safetensors or, if there is no such file, the shards that
  // model.safetensors.index.json names. A shard must be a file of the folder: shard names with a
  // path are refused, and so are links to other folders. Links of the Hugging Face cache (from
  // snapshots/<revision>/ to blobs/) are allowed. Returns NOT_FOUND if there are no weights.
  // Returns INVALID_ARGUMENT, with the names of the file and the tensor, if a file is malformed.
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
