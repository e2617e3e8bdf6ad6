// The tensors of a model folder, whether in one file or in shards. Without it every reader of
// weights would know about index files and what a hostile one may say.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mapped_file.h"
#include "transformer/safetensors.h"

namespace incipit {

inline constexpr int32_t kShardsMax = 4096;

// Read-only mappings of the folder's weight files and what is in them. Move-only; the bytes of
// `tensors()` live as long as this does, wherever it is moved.
class Checkpoint {
 public:
  // Opens model.safetensors, or else the shards that model.safetensors.index.json names. A shard is
  // a file of the folder: a name with a path is refused, and so is a link that leads elsewhere,
  // except within the layout of the Hugging Face cache (snapshots/<revision>/ into blobs/).
  // NOT_FOUND without weights; INVALID_ARGUMENT, naming file and tensor, for what is malformed.
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
