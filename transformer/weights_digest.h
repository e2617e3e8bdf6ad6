// Declares WeightsDigest, a digest of the weights of a checkpoint. Stored keys and values may be
// used only with the weights with which they were computed.
#pragma once

#include <cstdint>
#include <filesystem>

#include "absl/status/status.h"
#include "base/hash/xxh3.h"
#include "transformer/checkpoint.h"

namespace incipit {

// XXH3 with 128 bits over the name, the type, the shape and the bytes of every tensor of a
// checkpoint. Does not depend on the names and the number of the files. XXH3 detects other weights,
// but not weights that an attacker has constructed.
using WeightsDigest = Xxh3Digest;

// Computes the digest with `num_threads` threads. The result does not depend on the number of
// threads. Releases the memory pages of the tensors (ReleasePages).
WeightsDigest DigestWeights(const Checkpoint& checkpoint, int32_t num_threads);

inline constexpr int64_t kUnchangedNs = 2'000'000'000;

struct WeightsDigestOptions {
  // File that holds the digest of one checkpoint, with the identities of its weight files.
  std::filesystem::path cache_file;
  int32_t num_threads = 2;
  // Time of the system's clock, in nanoseconds since 1970. The digest is stored in the cache file
  // only if the last change of every weight file is at least kUnchangedNs older. A later change
  // then has another time, even if the clock of the file system is coarse.
  int64_t now_ns = 0;
};

struct CachedWeightsDigest {
  WeightsDigest digest{};
  bool is_from_cache = false;
  // The error of writing the cache file, or OK. After an error, the next start computes the digest
  // again.
  absl::Status write_status = {};
};

// Returns the digest from the cache file if the file holds the digest of the same weight files:
// equal devices, inodes, sizes and times. Otherwise computes the digest and replaces the cache
// file. A cache file that is missing, unreadable or damaged is replaced. Releases the memory pages
// of the tensors (ReleasePages), so LoadModel need not release them.
CachedWeightsDigest DigestWeightsCached(const Checkpoint& checkpoint,
                                        const WeightsDigestOptions& options);

}  // namespace incipit
