// Lists the contents of the folder of a disk cache. Reads tables and headers only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/cache/prefix_forest.h"
#include "cli/cache/progress.h"
#include "tier/segments/cache_folder.h"

namespace incipit {

// The segments of one fingerprint.
struct FingerprintContents {
  std::string name;  // first 16 hexadecimal digits of the fingerprint
  uint64_t num_segments = 0;
  uint64_t num_bytes = 0;              // size of the files
  uint64_t num_records = 0;            // includes expired records and older copies of a chunk
  uint64_t num_expired = 0;            // records that have expired
  uint64_t num_damaged = 0;            // segments that cannot be read
  uint64_t record_bytes = 0;           // size of one record; 0: unknown
  uint32_t chunk_tokens = 0;           // number of tokens of a chunk; 0: unknown
  std::vector<StoredPrefix> prefixes;  // largest first; without expired records
};

// Returns the contents of `folder`, sorted by fingerprint. Damaged segments are counted. Returns an
// error only if the folder cannot be listed. `now_s` is the time in seconds since 1970.
absl::StatusOr<std::vector<FingerprintContents>> InspectFolder(const CacheFolder& folder,
                                                               int64_t now_s, Progress& progress);

}  // namespace incipit
