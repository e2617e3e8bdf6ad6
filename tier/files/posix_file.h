// An open file of the operating system, and the reads of such files by io_uring.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tier/files/file_system.h"

namespace incipit {

// Owns a file descriptor.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor();
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

 private:
  int fd_;
};

// Returns the error of a system call. `what` is the operation and `path` the file.
absl::Status ErrorOf(int error, const char* what, const std::string& path);
// Returns the names of all entries of `directory`. `path` is the path of the directory in error
// messages.
absl::StatusOr<std::vector<std::string>> ListNames(const FileDescriptor& directory,
                                                   const std::string& path);
// Returns the contents of the regular file `name` in `directory`. Returns an error if the file has
// more than `num_bytes_max` bytes. `path` is the path of the file in error messages.
absl::StatusOr<std::string> ReadFileUpTo(const FileDescriptor& directory, const std::string& name,
                                         const std::string& path, uint64_t num_bytes_max);

class PosixFile final : public File {
 public:
  PosixFile(FileDescriptor fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  absl::Status Read(uint64_t offset, std::span<std::byte> out) override;
  absl::Status Write(uint64_t offset, std::span<const std::byte> bytes) override;
  int fd() const { return fd_.get(); }

 private:
  // Turns direct I/O off for this file. Returns false if direct I/O is off already.
  bool LeaveDirectIo();

  const FileDescriptor fd_;
  const std::string path_;
};

// Returns a queue that reads with io_uring, or null if the kernel does not allow io_uring.
// REQUIRES: all files are PosixFiles.
std::unique_ptr<ReadQueue> MakeUringReadQueue(int depth);
// Returns a queue that executes the reads in Wait, one read after the other.
std::unique_ptr<ReadQueue> MakeBlockingReadQueue();

}  // namespace incipit
