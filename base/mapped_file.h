// Maps files into memory. The weights of a model stay in the page cache of the kernel. All
// processes that map the same file share this memory.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace incipit {

// A read-only private mapping of a whole regular file. Move-only. The destructor unmaps the file.
class MappedFile {
 public:
  // Maps the file `path`. Returns NOT_FOUND, PERMISSION_DENIED or, for a file that is not regular,
  // FAILED_PRECONDITION. The message contains the path.
  static absl::StatusOr<MappedFile> Open(const std::filesystem::path& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::span<const std::byte> bytes_;
};

// Removes the whole pages within `bytes`, a part of a mapping, from the memory of this process. The
// kernel reads a removed page from the file again when the page is accessed. Only speed and memory
// use change.
void ReleasePages(std::span<const std::byte> bytes);

// Returns the contents of the regular file `path`. Returns FAILED_PRECONDITION if the file has more
// than `bytes_max` bytes. Also returns the errors of MappedFile::Open.
absl::StatusOr<std::string> ReadTextFile(const std::filesystem::path& path,
                                         size_t bytes_max = size_t{4} << 20);

}  // namespace incipit
