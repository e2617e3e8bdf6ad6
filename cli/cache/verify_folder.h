// Verifies every record in the folder of a disk cache.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/hash/xxh3.h"
#include "cli/cache/progress.h"
#include "tier/segments/cache_folder.h"

namespace incipit {

// A record or a segment that is damaged.
struct CacheDamage {
  // Value of `index` for damage of a segment instead of a record.
  static constexpr int64_t kSegment = -1;

  std::string segment;  // name of the file
  int64_t index = kSegment;
  std::string reason;
  Xxh3Digest bytes{};  // digest of the bytes of the record
};

struct CacheVerification {
  uint64_t num_segments = 0;
  uint64_t num_good = 0;     // records that a server with the same fingerprint can load
  uint64_t num_expired = 0;  // records whose retention hint has expired
  uint64_t num_erased = 0;   // records in a table that a server has removed since
  // Records that were damaged at the first look and changed until the second look, because a server
  // was writing them.
  uint64_t num_changing = 0;
  uint64_t num_bytes = 0;  // size of the files
  std::vector<CacheDamage> damages;

  uint64_t num_damaged() const { return damages.size(); }
};

// The result of the first of two reads of a folder.
struct FirstLook {
  CacheVerification total;                  // segments without damages
  std::vector<CacheVerification> suspects;  // one segment with damages each
};

// Reads all records of all segments of `folder`. `now_s` is the time in seconds since 1970. Returns
// an error if the folder cannot be listed. A file that the disk cannot read is a damaged segment.
absl::StatusOr<FirstLook> LookFirst(const CacheFolder& folder, int64_t now_s, Progress& progress);
// Reads the segments with damages again. The result has only damages that both reads have found,
// with the same bytes. So a record that a server has just written is not damaged.
absl::StatusOr<CacheVerification> LookAgain(const CacheFolder& folder, int64_t now_s,
                                            const FirstLook& first);

// Calls LookFirst and LookAgain.
absl::StatusOr<CacheVerification> VerifyFolder(const CacheFolder& folder, int64_t now_s,
                                               Progress& progress);

}  // namespace incipit
