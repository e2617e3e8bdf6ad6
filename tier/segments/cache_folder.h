// CacheFolder: the folder of a disk cache, for commands that read its files. A server may use the
// folder at the same time, so files may grow and vanish.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tier/files/file_system.h"
#include "tier/files/posix_file.h"

namespace incipit {

// The file of a segment.
struct SegmentFile {
  std::string name;
  uint32_t number = 0;
  uint64_t num_bytes = 0;
};

// Creates, changes and locks no file.
class CacheFolder {
 public:
  // Opens the folder `path`. An error message contains the path.
  static absl::StatusOr<CacheFolder> Open(const std::string& path);

  // Returns the segments of all fingerprints, oldest first. Omits files that are not regular, and
  // files whose names do not begin with a fingerprint.
  absl::StatusOr<std::vector<SegmentFile>> ListSegments() const;
  // Opens a file for reading. Returns NOT_FOUND if the file has vanished.
  absl::StatusOr<std::shared_ptr<File>> OpenFile(const std::string& name) const;
  // Returns the contents of a file. Returns an error if the file has more than `num_bytes_max`
  // bytes.
  absl::StatusOr<std::string> ReadAll(const std::string& name, uint64_t num_bytes_max) const;

 private:
  CacheFolder(std::string path, FileDescriptor directory)
      : path_(std::move(path)), directory_(std::move(directory)) {}

  std::string path_;
  FileDescriptor directory_;
};

}  // namespace incipit
