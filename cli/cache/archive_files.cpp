#include "cli/cache/archive_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "base/status.h"

namespace incipit {

OutputFile::OutputFile(std::string path, std::string part, FileDescriptor fd)
    : path_(std::move(path)), part_(std::move(part)), fd_(std::move(fd)) {}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      part_(std::exchange(other.part_, {})),
      fd_(std::move(other.fd_)) {}

OutputFile::~OutputFile() {
  if (!part_.empty()) ::unlink(part_.c_str());
}

absl::StatusOr<OutputFile> OutputFile::Create(const std::string& path) {
  if (path == kStandardStream) {
    // A separate descriptor, because the destructor closes the descriptor.
    FileDescriptor fd(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0));
    if (!fd.valid()) return ErrorOf(errno, "write to", "stdout");
    return OutputFile("stdout", "", std::move(fd));
  }
  struct stat info;
  if (::lstat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    return InvalidArgument("{} exists and is not a regular file; use {} for stdout", path,
                           kStandardStream);
  }
  std::string part = fmt::format("{}.{}.part", path, ::getpid());
  ::unlink(part.c_str());  // a file of an earlier process with the same process id
  FileDescriptor fd(::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd.valid()) return ErrorOf(errno, "create", part);
  return OutputFile(path, std::move(part), std::move(fd));
}

absl::Status OutputFile::Write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd_.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrorOf(errno, "write", path_);
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
  return absl::OkStatus();
}

absl::Status OutputFile::Commit() {
  if (part_.empty()) return absl::OkStatus();
  // Some file systems report a failed write only here.
  if (::fsync(fd_.get()) != 0) return ErrorOf(errno, "write", path_);
  if (std::rename(part_.c_str(), path_.c_str()) != 0) return ErrorOf(errno, "create", path_);
  part_.clear();
  return absl::OkStatus();
}

absl::StatusOr<InputFile> InputFile::Open(const std::string& path) {
  if (path == kStandardStream) {
    FileDescriptor fd(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0));
    if (!fd.valid()) return ErrorOf(errno, "read from", "stdin");
    return InputFile("stdin", std::move(fd));
  }
  FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrorOf(errno, "open", path);
  return InputFile(path, std::move(fd));
}

absl::Status InputFile::Read(std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t count = ::read(fd_.get(), out.data(), out.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrorOf(errno, "read", path_);
    if (count == 0) {
      return MakeStatus(absl::StatusCode::kOutOfRange, "{} is not complete", path_);
    }
    out = out.subspan(static_cast<size_t>(count));
  }
  return absl::OkStatus();
}

}  // namespace incipit
