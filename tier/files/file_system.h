// FileSystem: the interface through which the disk tier accesses files. Tests use an implementation
// whose files fail, hang or return wrong bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace incipit {

// An open file. Several threads may call the functions at the same time. Offsets and sizes are
// multiples of kPageBytes, and the memory begins at a multiple of kPageBytes.
class File {
 public:
  virtual ~File() = default;
  // Reads all bytes of `out`. Returns OUT_OF_RANGE if the file is too short.
  virtual absl::Status Read(uint64_t offset, std::span<std::byte> out) = 0;
  // Writes all bytes of `bytes`. Returns RESOURCE_EXHAUSTED if the disk is full.
  virtual absl::Status Write(uint64_t offset, std::span<const std::byte> bytes) = 0;
};

struct FileInfo {
  std::string name;
  uint64_t num_bytes = 0;
};

// One read of a ReadQueue.
struct FileRead {
  std::shared_ptr<File> file;
  uint64_t offset = 0;
  std::span<std::byte> out;
  absl::Status status;  // the result, as File::Read returns it
};

// Reads several parts of files at the same time. All functions must be called by one thread.
class ReadQueue {
 public:
  virtual ~ReadQueue() = default;
  // Starts `read`. REQUIRES: fewer reads are pending than the depth of the queue. `read` stays
  // valid and unchanged until Wait returns `read`.
  virtual void Submit(FileRead& read) = 0;
  // Returns a read that has ended, in any order. REQUIRES: at least one read is pending.
  virtual FileRead& Wait() = 0;
};

// One directory of files. Except for Prepare and Lock, several threads may call the functions at
// the same time.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // Creates the directory if the directory is missing. Returns an error with the name of the file
  // or directory if another user or group has access to the directory or to a file of the tier.
  virtual absl::Status Prepare() = 0;
  // Takes the lock of the directory. Returns false if another process holds the lock. The process
  // holds the lock until the process ends or calls Unlock.
  virtual absl::StatusOr<bool> Lock() = 0;
  virtual void Unlock() = 0;

  // Returns the files of the tier, in any order.
  virtual absl::StatusOr<std::vector<FileInfo>> List() = 0;
  // Creates a file of `num_bytes` bytes, and allocates its blocks on the disk if the file system
  // can do so. Returns RESOURCE_EXHAUSTED if the disk is full.
  virtual absl::StatusOr<std::shared_ptr<File>> Create(const std::string& name,
                                                       uint64_t num_bytes) = 0;
  virtual absl::StatusOr<std::shared_ptr<File>> Open(const std::string& name) = 0;
  // Returns the contents of a file. Returns an error if the file has more than `num_bytes_max`
  // bytes.
  virtual absl::StatusOr<std::string> ReadAll(const std::string& name, uint64_t num_bytes_max) = 0;
  // Writes `contents` to a new file, which then replaces the file `name`.
  virtual absl::Status WriteAll(const std::string& name, std::string_view contents) = 0;
  // Removes a file. Open files stay readable. Returns OK if the file does not exist.
  virtual absl::Status Remove(const std::string& name) = 0;

  // Returns the number of reads that one ReadQueue should have pending.
  virtual int read_depth() const = 0;
  // REQUIRES: the FileSystem outlives the queue.
  virtual std::unique_ptr<ReadQueue> MakeReadQueue() = 0;
};

}  // namespace incipit
