#include "tier/files/posix_file_system.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include "base/atomic_file.h"
#include "base/status.h"
#include "tier/files/posix_file.h"

namespace incipit {
namespace {

constexpr int kUringDepth = 8;

// Returns an error if `info` is not of this user, or if another user has access. `mode` is the
// required mode of the file.
absl::Status CheckPrivate(const struct stat& info, const std::string& path, mode_t mode) {
  if (info.st_uid != ::geteuid()) {
    return PermissionDenied("{} belongs to user {}; the disk tier needs its own files of user {}",
                            path, info.st_uid, ::geteuid());
  }
  if ((info.st_mode & 07777) != mode) {
    return PermissionDenied("{} has the mode {:04o}; the disk tier needs the mode {:04o}", path,
                            info.st_mode & 07777, mode);
  }
  return absl::OkStatus();
}

bool IsSegment(std::string_view name) { return name.ends_with(kSegmentSuffix); }

class PosixFileSystem final : public FileSystem {
 public:
  PosixFileSystem(std::string path, IoMethod method) : path_(std::move(path)) {
    uses_uring_ = method == IoMethod::kAuto && MakeUringReadQueue(kUringDepth) != nullptr;
  }

  absl::Status Prepare() override {
    if (::mkdir(path_.c_str(), 0700) != 0 && errno != EEXIST) {
      return ErrorOf(errno, "create the directory", path_);
    }
    FileDescriptor directory(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory.valid()) return ErrorOf(errno, "open the directory", path_);
    struct stat info;
    if (::fstat(directory.get(), &info) != 0) return ErrorOf(errno, "examine", path_);
    INCIPIT_RETURN_IF_ERROR(CheckPrivate(info, path_, 0700));
    FileDescriptor lock(
        ::openat(directory.get(), kLockName, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!lock.valid()) return ErrorOf(errno, "open the lock file", PathOf(kLockName));
    if (::fstat(lock.get(), &info) != 0) return ErrorOf(errno, "examine", PathOf(kLockName));
    INCIPIT_RETURN_IF_ERROR(CheckPrivate(info, PathOf(kLockName), 0600));
    directory_ = std::move(directory);
    return List().status();
  }

  absl::StatusOr<bool> Lock() override {
    lock_ = FileDescriptor(
        ::openat(directory_.get(), kLockName, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!lock_.valid()) return ErrorOf(errno, "open the lock file", PathOf(kLockName));
    if (::flock(lock_.get(), LOCK_EX | LOCK_NB) == 0) return true;
    const int error = errno;
    lock_ = FileDescriptor();
    if (error == EWOULDBLOCK) return false;
    return ErrorOf(error, "lock", PathOf(kLockName));
  }
  void Unlock() override { lock_ = FileDescriptor(); }

  absl::StatusOr<std::vector<FileInfo>> List() override {
    INCIPIT_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListNames(directory_, path_));
    std::vector<FileInfo> files;
    for (const std::string& name : names) {
      if (!IsSegment(name)) continue;
      struct stat info;
      if (::fstatat(directory_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
        return ErrorOf(errno, "examine", PathOf(name));
      }
      if (!S_ISREG(info.st_mode)) {
        return PermissionDenied("{} is not a regular file", PathOf(name));
      }
      INCIPIT_RETURN_IF_ERROR(CheckPrivate(info, PathOf(name), 0600));
      files.push_back({name, static_cast<uint64_t>(info.st_size)});
    }
    return files;
  }

  absl::StatusOr<std::shared_ptr<File>> Create(const std::string& name,
                                               uint64_t num_bytes) override {
    INCIPIT_ASSIGN_OR_RETURN(FileDescriptor fd, OpenDirect(name, O_CREAT | O_EXCL, "create"));
    const auto size = static_cast<off_t>(num_bytes);
    int error = ::fallocate(fd.get(), 0, 0, size) == 0 ? 0 : errno;
    if (error == EOPNOTSUPP || error == ENOSYS) {
      error = ::ftruncate(fd.get(), size) == 0 ? 0 : errno;
    }
    if (error != 0) {
      ::unlinkat(directory_.get(), name.c_str(), 0);
      return ErrorOf(error, "allocate", PathOf(name));
    }
    return std::make_shared<PosixFile>(std::move(fd), PathOf(name));
  }

  absl::StatusOr<std::shared_ptr<File>> Open(const std::string& name) override {
    INCIPIT_ASSIGN_OR_RETURN(FileDescriptor fd, OpenDirect(name, 0, "open"));
    return std::make_shared<PosixFile>(std::move(fd), PathOf(name));
  }

  absl::StatusOr<std::string> ReadAll(const std::string& name, uint64_t num_bytes_max) override {
    return ReadFileUpTo(directory_, name, PathOf(name), num_bytes_max);
  }
  absl::Status WriteAll(const std::string& name, std::string_view contents) override {
    return WriteFileAtomically(PathOf(name), contents);
  }

  absl::Status Remove(const std::string& name) override {
    if (::unlinkat(directory_.get(), name.c_str(), 0) == 0 || errno == ENOENT) {
      return absl::OkStatus();
    }
    return ErrorOf(errno, "remove", PathOf(name));
  }

  int read_depth() const override { return uses_uring_ ? kUringDepth : 1; }
  std::unique_ptr<ReadQueue> MakeReadQueue() override {
    std::unique_ptr<ReadQueue> queue = uses_uring_ ? MakeUringReadQueue(kUringDepth) : nullptr;
    return queue != nullptr ? std::move(queue) : MakeBlockingReadQueue();
  }

 private:
  std::string PathOf(std::string_view name) const { return fmt::format("{}/{}", path_, name); }

  // Opens a file with direct I/O, or without if the file system refuses direct I/O.
  absl::StatusOr<FileDescriptor> OpenDirect(const std::string& name, int flags, const char* what) {
    flags |= O_RDWR | O_NOFOLLOW | O_CLOEXEC;
    FileDescriptor fd(::openat(directory_.get(), name.c_str(), flags | O_DIRECT, 0600));
    if (!fd.valid() && errno == EINVAL) {
      // The failed call may have created the file.
      if ((flags & O_EXCL) != 0) ::unlinkat(directory_.get(), name.c_str(), 0);
      fd = FileDescriptor(::openat(directory_.get(), name.c_str(), flags, 0600));
    }
    if (!fd.valid()) return ErrorOf(errno, what, PathOf(name));
    return fd;
  }

  const std::string path_;
  bool uses_uring_ = false;
  FileDescriptor directory_, lock_;
};

}  // namespace

std::unique_ptr<FileSystem> MakePosixFileSystem(std::string path, IoMethod method) {
  return std::make_unique<PosixFileSystem>(std::move(path), method);
}

}  // namespace incipit
