// Maps files into memory. The weights of a model stay in the page cache, and all processes that map
// the file share the memory.
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
  // Maps a file. Returns NOT_FOUND, PERMISSION_DENIED or FAILED_PRECONDITION (not a regular file),
  // with the path in the message.
  static absl::StatusOr<MappedFile> Open(const std::filesystem::path& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::span<const std::byte> bytes_;
};

// Removes the whole pages of `bytes`, a part of a mapping, from the memory of this process. The
// system reads the pages from the file again when the bytes are accessed, so only speed and memory
// use change.
void ReleasePages(std::span<const std::byte> bytes);

// Returns the contents of a regular file. Returns the errors of MappedFile::Open, and
// FAILED_PRECONDITION if the file is larger than `bytes_max`.
absl::StatusOr<std::string> ReadTextFile(const std::filesystem::path& path,
                                         size_t bytes_max = size_t{4} << 20);

}  // namespace incipit
