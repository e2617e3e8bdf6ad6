// A file's bytes without reading them: a model's weights stay in the page cache and are shared by
// every process that maps them.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace incipit {

// A read-only private mapping of a whole regular file. Move-only; unmapped by the destructor.
class MappedFile {
 public:
  // NOT_FOUND, PERMISSION_DENIED or FAILED_PRECONDITION (not a regular file), naming the path.
  static absl::StatusOr<MappedFile> Open(const std::filesystem::path& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::span<const std::byte> bytes_;
};

// Takes what lies in whole pages of `bytes`, a part of a mapping, out of this process's memory: it
// comes back from the file when it is read again. Only speed and memory change.
void ReleasePages(std::span<const std::byte> bytes);

// Returns the bytes of a regular file of at most `bytes_max` bytes. Errors as of MappedFile::Open;
// FAILED_PRECONDITION if the file is larger.
absl::StatusOr<std::string> ReadTextFile(const std::filesystem::path& path,
                                         size_t bytes_max = size_t{4} << 20);

}  // namespace incipit
