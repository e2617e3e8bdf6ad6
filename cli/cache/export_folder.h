// Writes the records of a disk cache to an archive.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/cache/archive_files.h"
#include "cli/cache/progress.h"
#include "tier/segments/cache_folder.h"

namespace incipit {

struct ExportOptions {
  // First 16 hexadecimal digits of a fingerprint. If empty, all fingerprints are exported.
  std::string fingerprint;
  int64_t now_s = 0;  // time in seconds since 1970
};

struct ExportResult {
  uint64_t num_exported = 0;
  uint64_t num_bytes = 0;    // size of the exported records
  uint64_t num_expired = 0;  // expired records, which are not exported
  // Damaged records and segments, which are not exported. Contains records that a server writes at
  // the same time.
  uint64_t num_damaged = 0;
};

// Verifies each record of `folder`, and writes the valid records to `file`, oldest first. Then
// commits `file`. Returns NOT_FOUND if there is no segment to export, and CANCELLED if another
// thread sets `is_cancelled`.
absl::StatusOr<ExportResult> ExportFolder(const CacheFolder& folder, const ExportOptions& options,
                                          OutputFile& file, const std::atomic<bool>& is_cancelled,
                                          Progress& progress);

}  // namespace incipit
