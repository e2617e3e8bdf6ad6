#include "transformer/checkpoint.h"

#include <map>
#include <string>
#include <system_error>
#include <utility>

#include "base/json/json.h"
#include "base/mapped_file.h"
#include "base/status.h"

namespace incipit {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

constexpr std::string_view kSingleFile = "model.safetensors";
constexpr std::string_view kIndexFile = "model.safetensors.index.json";
constexpr JsonLimits kIndexJsonLimits = {
    .bytes_max = size_t{64} << 20, .values_max = 2'000'000, .depth_max = 16};

absl::Status CheckShardName(std::string_view name) {
  const bool is_plain = name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
  if (is_plain && name.ends_with(".safetensors") && !name.starts_with('.')) return absl::OkStatus();
  return InvalidArgument(
      "weight_map has the shard name {}, which is not the name of a .safetensors file in the "
      "model's folder",
      ShownValue(std::string(name)));
}

// Returns an error if the weight file `shard` is not in the folder `folder`, for example because
// `shard` is a link to another folder. Exception: in the cache of Hugging Face, a link may lead to
// the directory blobs/ of the same repository.
absl::Status CheckShardLocation(const fs::path& folder, const fs::path& shard) {
  std::error_code error;
  const fs::path target = fs::canonical(shard, error);
  if (error) return NotFound("{}: {}", shard.string(), error.message());
  const fs::path home = fs::canonical(folder, error);
  if (error) return NotFound("{}: {}", folder.string(), error.message());
  if (target.parent_path() == home) return absl::OkStatus();
  const fs::path snapshots = home.parent_path();
  if (snapshots.filename() == "snapshots" &&
      target.parent_path() == snapshots.parent_path() / "blobs") {
    return absl::OkStatus();
  }
  return InvalidArgument(
      "{} is a link to {}, outside the model's folder; put the file itself into the folder",
      shard.string(), target.string());
}

// Maps the name of each tensor to the name of the weight file that contains the tensor.
using WeightMap = std::map<std::string, std::string, std::less<>>;

absl::StatusOr<WeightMap> ReadIndex(const fs::path& path) {
  INCIPIT_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kIndexJsonLimits.bytes_max));
  INCIPIT_ASSIGN_OR_RETURN(const Json index, ParseJson(text, kIndexJsonLimits));
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (map == index.end() || !map->is_object() || map->empty()) {
    return InvalidArgument("weight_map is not an object that maps tensor names to file names");
  }
  WeightMap shard_of;
  for (const auto& [tensor, shard] : map->items()) {
    if (!shard.is_string()) {
      return InvalidArgument("weight_map has the value {} for tensor {}; it must be a file name",
                             ShownValue(shard), ShownValue(tensor));
    }
    INCIPIT_RETURN_IF_ERROR(CheckShardName(shard.get_ref<const std::string&>()));
    shard_of.emplace(tensor, shard.get<std::string>());
  }
  return shard_of;
}

}  // namespace

absl::Status Checkpoint::AddFile(const fs::path& path, StoredTensors& tensors) {
  INCIPIT_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  absl::StatusOr<StoredTensors> parsed = ParseSafetensors(file.bytes());
  if (!parsed.ok()) return Annotate(parsed.status(), path.string());
  tensors = *std::move(parsed);
  files_.push_back(std::move(file));
  return absl::OkStatus();
}

absl::Status Checkpoint::AddShards(const fs::path& folder) {
  const fs::path index_path = folder / kIndexFile;
  absl::StatusOr<WeightMap> shard_of = ReadIndex(index_path);
  if (!shard_of.ok()) return Annotate(shard_of.status(), index_path.string());
  std::map<std::string, StoredTensors, std::less<>> shards;
  for (const auto& [tensor, shard] : *shard_of) shards[shard];
  if (shards.size() > size_t{kShardsMax}) {
    return InvalidArgument(
        "{}: the list of weight files (shards) has {} files; at most {} files are allowed",
        index_path.string(), shards.size(), kShardsMax);
  }
  for (auto& [name, tensors] : shards) {
    INCIPIT_RETURN_IF_ERROR(CheckShardLocation(folder, folder / name));
    INCIPIT_RETURN_IF_ERROR(AddFile(folder / name, tensors));
    for (auto& [tensor, stored] : tensors) {
      const auto expected = shard_of->find(tensor);
      if (expected == shard_of->end() || expected->second != name) {
        return InvalidArgument(
            "{}: the file contains tensor {}, which {} does not list for this file",
            (folder / name).string(), ShownValue(tensor), kIndexFile);
      }
      tensors_.emplace(tensor, std::move(stored));
    }
  }
  for (const auto& [tensor, shard] : *shard_of) {
    if (tensors_.contains(tensor)) continue;
    return InvalidArgument("{}: the file does not contain tensor {}, which {} lists for this file",
                           (folder / shard).string(), ShownValue(tensor), kIndexFile);
  }
  return absl::OkStatus();
}

std::vector<FileIdentity> Checkpoint::files() const {
  std::vector<FileIdentity> identities;
  for (const MappedFile& file : files_) identities.push_back(file.identity());
  return identities;
}

absl::StatusOr<Checkpoint> Checkpoint::Open(const fs::path& folder) {
  Checkpoint checkpoint;
  std::error_code error;
  if (fs::exists(folder / kSingleFile, error)) {
    INCIPIT_RETURN_IF_ERROR(checkpoint.AddFile(folder / kSingleFile, checkpoint.tensors_));
  } else if (fs::exists(folder / kIndexFile, error)) {
    INCIPIT_RETURN_IF_ERROR(checkpoint.AddShards(folder));
  } else {
    return NotFound(
        "{}: the folder contains neither {} nor {}; other weight formats are not supported",
        folder.string(), kSingleFile, kIndexFile);
  }
  return checkpoint;
}

}  // namespace incipit
