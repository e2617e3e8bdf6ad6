// The file of `incipit cache export` and `incipit cache import`, as a stream of bytes.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tier/files/posix_file.h"

namespace incipit {

// The path that stands for stdin or stdout.
inline constexpr char kStandardStream[] = "-";

// Writes to a new file beside the path, which Commit renames to the path. So the path never has an
// incomplete file. Without Commit, the destructor removes the new file.
class OutputFile {
 public:
  // `path` is a path or kStandardStream. Only the user of the process may read the new file.
  // Returns an error if `path` exists and is not a regular file.
  static absl::StatusOr<OutputFile> Create(const std::string& path);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  absl::Status Write(std::span<const std::byte> bytes);
  // Call this function after the last Write.
  absl::Status Commit();

 private:
  OutputFile(std::string path, std::string part, FileDescriptor fd);

  std::string path_;
  std::string part_;  // path of the new file; empty for stdout
  FileDescriptor fd_;
};

class InputFile {
 public:
  // `path` is a path or kStandardStream.
  static absl::StatusOr<InputFile> Open(const std::string& path);
  // Reads all bytes of `out`. Returns OUT_OF_RANGE if the file ends before.
  absl::Status Read(std::span<std::byte> out);

 private:
  InputFile(std::string path, FileDescriptor fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;
  FileDescriptor fd_;
};

}  // namespace incipit
