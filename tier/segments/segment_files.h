// Keeps the most recently opened segments open, so that a load does not open its file again.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "tier/files/file_system.h"
#include "tier/segments/segment.h"

namespace incipit {

// All functions are thread-safe.
class SegmentFiles {
 public:
  // Maximum number of segments that stay open. The usual limit of open files is 1,024.
  static constexpr size_t kOpenMax = 128;

  SegmentFiles(FileSystem& files, const Fingerprint& fingerprint)
      : files_(files), fingerprint_(fingerprint) {}

  // Returns the open file of segment `number`. Opens the file if necessary.
  absl::StatusOr<std::shared_ptr<File>> Get(uint32_t number);
  void Add(uint32_t number, std::shared_ptr<File> file);
  // Removes the file of the removed segment `number` from the open files. The file is closed after
  // its last use. Later calls of Add ignore this segment and all segments with smaller numbers.
  void Forget(uint32_t number);
  void ForgetAll();

 private:
  struct OpenFile {
    uint32_t number = 0;
    std::shared_ptr<File> file;
  };

  FileSystem& files_;
  const Fingerprint fingerprint_;
  Mutex mutex_;
  std::vector<OpenFile> open_ ABSL_GUARDED_BY(mutex_);
  // Add ignores segments with numbers below `oldest_`. A reader thread may open a file just before
  // the file is removed. Such a file must not stay open, because an open file occupies space on the
  // disk.
  uint32_t oldest_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t next_victim_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace incipit
