#include "tier/segments/cache_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <tuple>
#include <utility>

#include "base/status.h"
#include "tier/segments/segment.h"

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
  INCIPIT_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListNames(directory_, path_));
  std::vector<SegmentFile> files;
  for (const std::string& name : names) {
    struct stat info;
    // A file may vanish after ListNames has returned its name.
    if (const std::optional<uint32_t> number = SegmentNumber(name);
        number && IsFingerprintName(name.substr(0, kFingerprintDigits)) &&
        ::fstatat(directory_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISREG(info.st_mode)) {
      files.push_back({name, *number, static_cast<uint64_t>(info.st_size)});
    }
  }
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
  return ReadFileUpTo(directory_, name, fmt::format("{}/{}", path_, name), num_bytes_max);
}

}  // namespace incipit
