// The files of the disk tier in a directory of the operating system.
#pragma once

#include <memory>
#include <string>

#include "tier/files/file_system.h"

namespace incipit {

// kAuto: io_uring if the kernel allows io_uring, and otherwise kPread.
enum class IoMethod : uint8_t { kAuto, kPread };

// Names of the files of the tier end with kSegmentSuffix; all other files in the directory, except
// the lock file, are ignored.
inline constexpr char kSegmentSuffix[] = ".segment";
inline constexpr char kLockName[] = "lock";

// Returns a FileSystem for the directory `path`. Uses direct I/O and preallocation if the file
// system supports them.
std::unique_ptr<FileSystem> MakePosixFileSystem(std::string path, IoMethod method);

}  // namespace incipit
