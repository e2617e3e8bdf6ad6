// Writes the records of an archive to the folder of a disk cache.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/cache/archive_files.h"
#include "cli/cache/progress.h"
#include "tier/files/file_system.h"
#include "tier/segments/segment_store.h"

namespace incipit {

struct ImportOptions {
  uint64_t size_bytes = 0;  // maximum size of all segments in the folder
  uint64_t segment_bytes = kSegmentBytes;
  int64_t now_s = 0;  // time in seconds since 1970
};

struct ImportResult {
  uint64_t num_imported = 0;
  uint64_t num_bytes = 0;    // size of the imported records
  uint64_t num_present = 0;  // records of the archive whose chunks the folder already has
  uint64_t num_expired = 0;  // expired records of the archive
  uint64_t num_damaged = 0;  // damaged records of the archive
  // Chunks of the imported fingerprints that were removed from the folder to make room.
  uint64_t num_reclaimed = 0;
  // Error of the archive or of the disk. The records that are counted above were imported anyway.
  absl::Status status;
};

// Verifies each record of `archive`, and appends the valid records that the folder does not have.
// If the folder is full, removes the oldest segment. Seals the last segment of each fingerprint.
// REQUIRES: the process holds the lock of `files`.
ImportResult ImportArchive(InputFile& archive, FileSystem& files, const ImportOptions& options,
                           Progress& progress);

}  // namespace incipit
