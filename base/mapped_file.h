// Declares MappedFile, which maps a file into memory. Processes that map the same file share the
// memory of the kernel's page cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace incipit {

// The numbers by which a program recognises that a file has not changed since it was opened. Each
// change of a file's contents changes `changed_ns`, unless the clock of the file system is too
// coarse to separate two changes.
struct FileIdentity {
  uint64_t device = 0, inode = 0, size = 0;
  // Time of the last change of the contents, in nanoseconds since 1970.
  int64_t modified_ns = 0;
  // Time of the last change of the contents or of the attributes. Programs cannot set this time.
  int64_t changed_ns = 0;

  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

// A read-only mapping of a whole regular file. A MappedFile can be moved but not copied. The
// destructor unmaps the file.
class MappedFile {
 public:
  // Maps the file `path`. Returns NOT_FOUND if the file does not exist, and PERMISSION_DENIED if
  // the process may not read the file. Returns FAILED_PRECONDITION for any other error, for example
  // if `path` is not a regular file. The message contains the path.
  static absl::StatusOr<MappedFile> Open(const std::filesystem::path& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }
  // Returns the identity that the file had when it was opened.
  const FileIdentity& identity() const { return identity_; }

 private:
  MappedFile(std::span<const std::byte> bytes, const FileIdentity& identity)
      : bytes_(bytes), identity_(identity) {}
  std::span<const std::byte> bytes_;
  FileIdentity identity_;
};

// Frees the memory pages that are completely inside `bytes`. At the next access to such a page, the
// kernel reads the page from the file again. REQUIRES: `bytes` is a part of a mapped file.
void ReleasePages(std::span<const std::byte> bytes);

// Returns the contents of the regular file `path`. Returns FAILED_PRECONDITION if the file has more
// than `bytes_max` bytes. Also returns the errors of MappedFile::Open.
absl::StatusOr<std::string> ReadTextFile(const std::filesystem::path& path,
                                         size_t bytes_max = size_t{4} << 20);
// Returns the same as ReadTextFile, but nullopt if the file does not exist.
absl::StatusOr<std::optional<std::string>> ReadTextFileIfExists(const std::filesystem::path& path,
                                                                size_t bytes_max = size_t{4} << 20);
// Returns all bytes of `path`, which may also be a pipe or a terminal. Waits until the writers of a
// pipe close the pipe. Returns FAILED_PRECONDITION after reading more than `bytes_max` bytes. Also
// returns FAILED_PRECONDITION if `path` is a folder or if a read fails. Also returns NOT_FOUND and
// PERMISSION_DENIED as MappedFile::Open.
absl::StatusOr<std::string> ReadTextInput(const std::filesystem::path& path, size_t bytes_max);

}  // namespace incipit
