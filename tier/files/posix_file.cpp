#include "tier/files/posix_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <deque>
#include <system_error>

#include "base/status.h"

namespace incipit {

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

absl::Status ErrorOf(int error, const char* what, const std::string& path) {
  const std::string reason = std::generic_category().message(error);
  switch (error) {
    case ENOENT:
      return NotFound("cannot {} {}: {}", what, path, reason);
    case ENOSPC:
    case EDQUOT:
      return ResourceExhausted("cannot {} {}: {}", what, path, reason);
    case EACCES:
    case EPERM:
    case EROFS:
      return PermissionDenied("cannot {} {}: {}", what, path, reason);
    default:
      return Unavailable("cannot {} {}: {}", what, path, reason);
  }
}

absl::StatusOr<std::vector<std::string>> ListNames(const FileDescriptor& directory,
                                                   const std::string& path) {
  // Each call needs a new descriptor, because a descriptor keeps its position in the list of files.
  const int fd = ::openat(directory.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return ErrorOf(errno, "open the directory", path);
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(::fdopendir(fd), ::closedir);
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* const entry = ::readdir(listing.get())) {
    names.emplace_back(entry->d_name);
    errno = 0;
  }
  if (errno != 0) return ErrorOf(errno, "list", path);
  return names;
}

absl::StatusOr<std::string> ReadFileUpTo(const FileDescriptor& directory, const std::string& name,
                                         const std::string& path, uint64_t num_bytes_max) {
  // O_NONBLOCK: the open of a named pipe returns at once.
  const int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  const FileDescriptor fd(::openat(directory.get(), name.c_str(), flags));
  if (!fd.valid()) return ErrorOf(errno, "open", path);
  struct stat info;
  if (::fstat(fd.get(), &info) != 0) return ErrorOf(errno, "examine", path);
  if (!S_ISREG(info.st_mode)) return InvalidArgument("{} is not a regular file", path);
  const auto num_bytes = static_cast<uint64_t>(info.st_size);
  if (num_bytes > num_bytes_max) {
    return InvalidArgument("{} has {} bytes; the maximum is {} bytes", path, num_bytes,
                           num_bytes_max);
  }
  std::string contents(num_bytes, '\0');
  size_t count = 0;
  while (count < contents.size()) {
    const ssize_t read = ::read(fd.get(), contents.data() + count, contents.size() - count);
    if (read < 0 && errno == EINTR) continue;
    if (read < 0) return ErrorOf(errno, "read", path);
    if (read == 0) break;
    count += static_cast<size_t>(read);
  }
  contents.resize(count);
  return contents;
}

bool PosixFile::LeaveDirectIo() {
  const int flags = ::fcntl(fd_.get(), F_GETFL);
  if (flags < 0 || (flags & O_DIRECT) == 0) return false;
  return ::fcntl(fd_.get(), F_SETFL, flags & ~O_DIRECT) == 0;
}

absl::Status PosixFile::Read(uint64_t offset, std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t count = ::pread(fd_.get(), out.data(), out.size(), static_cast<off_t>(offset));
    if (count < 0 && (errno == EINTR || (errno == EINVAL && LeaveDirectIo()))) continue;
    if (count < 0) return ErrorOf(errno, "read", path_);
    if (count == 0) {
      return MakeStatus(absl::StatusCode::kOutOfRange, "{} ends at offset {}", path_, offset);
    }
    // Direct I/O cannot continue at an offset that is not a multiple of the page size.
    if (static_cast<size_t>(count) < out.size()) static_cast<void>(LeaveDirectIo());
    offset += static_cast<uint64_t>(count);
    out = out.subspan(static_cast<size_t>(count));
  }
  return absl::OkStatus();
}

absl::Status PosixFile::Write(uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count =
        ::pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && (errno == EINTR || (errno == EINVAL && LeaveDirectIo()))) continue;
    if (count <= 0) return ErrorOf(count < 0 ? errno : ENOSPC, "write", path_);
    if (static_cast<size_t>(count) < bytes.size()) static_cast<void>(LeaveDirectIo());
    offset += static_cast<uint64_t>(count);
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
  return absl::OkStatus();
}

namespace {

class BlockingReadQueue final : public ReadQueue {
 public:
  void Submit(FileRead& read) override { pending_.push_back(&read); }
  FileRead& Wait() override {
    FileRead& read = *pending_.front();
    pending_.pop_front();
    read.status = read.file->Read(read.offset, read.out);
    return read;
  }

 private:
  std::deque<FileRead*> pending_;
};

}  // namespace

std::unique_ptr<ReadQueue> MakeBlockingReadQueue() { return std::make_unique<BlockingReadQueue>(); }

}  // namespace incipit
