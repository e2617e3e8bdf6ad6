#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/status.h"

namespace incipit {
namespace {

absl::Status ErrnoStatus(const std::filesystem::path& path, int error) {
  switch (error) {
    case ENOENT:
      return NotFound("{}: no such file", path.string());
    case EACCES:
    case EPERM:
      return PermissionDenied("{}: permission denied", path.string());
    default:
      return FailedPrecondition("{}: {}", path.string(), std::strerror(error));
  }
}

int64_t Nanoseconds(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

absl::StatusOr<MappedFile> MappedFile::Open(const std::filesystem::path& path) {
  // Without O_NONBLOCK, opening a named pipe (FIFO) would wait until another process opens the pipe
  // for writing. O_NONBLOCK has no effect on regular files.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor < 0) return ErrnoStatus(path, errno);
  struct stat info {};
  if (::fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(descriptor);
    return FailedPrecondition("{}: not a regular file", path.string());
  }
  const auto size = static_cast<size_t>(info.st_size);
  const FileIdentity identity = {.device = info.st_dev,
                                 .inode = info.st_ino,
                                 .size = size,
                                 .modified_ns = Nanoseconds(info.st_mtim),
                                 .changed_ns = Nanoseconds(info.st_ctim)};
  if (size == 0) {
    ::close(descriptor);
    return MappedFile(std::span<const std::byte>(), identity);
  }
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  const int error = errno;
  ::close(descriptor);
  if (data == MAP_FAILED) return ErrnoStatus(path, error);
  return MappedFile(std::span(static_cast<const std::byte*>(data), size), identity);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})), identity_(other.identity_) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(identity_, other.identity_);
  return *this;
}

MappedFile::~MappedFile() {
  if (bytes_.empty()) return;
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void ReleasePages(std::span<const std::byte> bytes) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto data = reinterpret_cast<uintptr_t>(bytes.data());
  const uintptr_t begin = (data + page - 1) / page * page;
  const uintptr_t end = (data + bytes.size()) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

absl::StatusOr<std::string> ReadTextFile(const std::filesystem::path& path, size_t bytes_max) {
  INCIPIT_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  if (file.bytes().size() > bytes_max) {
    return FailedPrecondition("{}: the file has {} bytes; the maximum is {} bytes", path.string(),
                              file.bytes().size(), bytes_max);
  }
  return std::string(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
}

absl::StatusOr<std::optional<std::string>> ReadTextFileIfExists(const std::filesystem::path& path,
                                                                size_t bytes_max) {
  absl::StatusOr<std::string> text = ReadTextFile(path, bytes_max);
  if (absl::IsNotFound(text.status())) return std::optional<std::string>();
  INCIPIT_RETURN_IF_ERROR(text.status());
  return std::optional(*std::move(text));
}

absl::StatusOr<std::string> ReadTextInput(const std::filesystem::path& path, size_t bytes_max) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY);
  if (descriptor < 0) return ErrnoStatus(path, errno);
  std::string text;
  std::array<char, 1 << 16> part;
  ssize_t count = 1;
  int error = 0;
  while (count > 0 && text.size() <= bytes_max) {
    count = ::read(descriptor, part.data(), part.size());
    error = count < 0 ? errno : 0;
    if (count > 0) text.append(part.data(), static_cast<size_t>(count));
    if (error == EINTR) count = 1;
  }
  ::close(descriptor);
  if (error != 0) return ErrnoStatus(path, error);
  if (text.size() > bytes_max) {
    return FailedPrecondition("{}: the input has more than {} bytes, the maximum", path.string(),
                              bytes_max);
  }
  return text;
}

}  // namespace incipit
