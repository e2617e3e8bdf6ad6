#include "tier/cache_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <tuple>
#include <utility>

#include "base/status.h"
#include "tier/segment.h"

namespace incipit {
namespace {

// O_NONBLOCK: the open of a named pipe returns at once.
constexpr int kOpenFlags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;

}  // namespace

absl::StatusOr<CacheFolder> CacheFolder::Open(const std::string& path) {
  FileDescriptor directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid()) return ErrorOf(errno, "open the directory", path);
  return CacheFolder(path, std::move(directory));
}

absl::StatusOr<std::vector<SegmentFile>> CacheFolder::ListSegments() const {
  // Each call needs a new descriptor, because a descriptor keeps its position in the list of files.
  const int fd = ::openat(directory_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return ErrorOf(errno, "open the directory", path_);
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(::fdopendir(fd), ::closedir);
  std::vector<SegmentFile> files;
  errno = 0;
  while (const dirent* const entry = ::readdir(listing.get())) {
    const std::string name = entry->d_name;
    struct stat info;
    // A file may vanish after readdir has returned its name.
    if (const std::optional<uint32_t> number = SegmentNumber(name);
        number && IsFingerprintName(name.substr(0, kFingerprintDigits)) &&
        ::fstatat(directory_.get(), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISREG(info.st_mode)) {
      files.push_back({name, *number, static_cast<uint64_t>(info.st_size)});
    }
    errno = 0;
  }
  if (errno != 0) return ErrorOf(errno, "list", path_);
  std::ranges::sort(files, {}, [](const SegmentFile& f) { return std::tie(f.number, f.name); });
  return files;
}

absl::StatusOr<std::shared_ptr<File>> CacheFolder::OpenFile(const std::string& name) const {
  // Direct I/O reads the bytes on the disk instead of a copy in the page cache.
  FileDescriptor fd(::openat(directory_.get(), name.c_str(), kOpenFlags | O_DIRECT));
  if (!fd.valid() && errno == EINVAL) {
    fd = FileDescriptor(::openat(directory_.get(), name.c_str(), kOpenFlags));
  }
  const std::string path = fmt::format("{}/{}", path_, name);
  if (!fd.valid()) return ErrorOf(errno, "open", path);
  return std::make_shared<PosixFile>(std::move(fd), path);
}

absl::StatusOr<std::string> CacheFolder::ReadAll(const std::string& name,
                                                 uint64_t num_bytes_max) const {
  const std::string path = fmt::format("{}/{}", path_, name);
  const FileDescriptor fd(::openat(directory_.get(), name.c_str(), kOpenFlags));
  if (!fd.valid()) return ErrorOf(errno, "open", path);
  return ReadFileUpTo(fd, path, num_bytes_max);
}

}  // namespace incipit
