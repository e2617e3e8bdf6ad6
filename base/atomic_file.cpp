#include "base/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "base/status.h"

namespace incipit {
namespace {

// Writes all of `contents`. Returns 0, or the errno of the error.
int WriteAll(int descriptor, std::string_view contents) {
  while (!contents.empty()) {
    const ssize_t count = ::write(descriptor, contents.data(), contents.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    contents.remove_prefix(static_cast<size_t>(count));
  }
  return 0;
}

}  // namespace

absl::Status WriteFileAtomically(const std::filesystem::path& path, std::string_view contents) {
  const std::string part = fmt::format("{}.{}.part", path.string(), ::getpid());
  const auto failure = [&](int error) {
    return FailedPrecondition("{} cannot be written: {}", path.string(), std::strerror(error));
  };
  ::unlink(part.c_str());  // a file of an earlier process with the same process id
  const int descriptor = ::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (descriptor < 0) return failure(errno);
  int error = WriteAll(descriptor, contents);
  if (::close(descriptor) != 0 && error == 0) error = errno;
  if (error == 0 && std::rename(part.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return absl::OkStatus();
  ::unlink(part.c_str());
  return failure(error);
}

}  // namespace incipit
