// Groups the chunks of a disk cache by prefix.
#pragma once

#include <cstdint>
#include <vector>

namespace incipit {

// One chunk of a disk cache, without its tokens.
struct StoredChunk {
  uint64_t key = 0;     // first 8 bytes of the key
  uint64_t parent = 0;  // first 8 bytes of the key of the previous chunk
  int64_t first_token = 0;
  uint64_t tenant = 0;    // 0: no tenant
  int64_t created_s = 0;  // seconds since 1970
  int64_t expires_s = 0;  // seconds since 1970; 0: the chunk does not expire
  uint32_t hits = 0;
};

// A prefix: a chunk (the root) whose previous chunk is not stored, and all chunks that follow the
// root in any sequence.
struct StoredPrefix {
  uint64_t key = 0;         // first 8 bytes of the key of the root
  int64_t first_token = 0;  // position of the first token of the root
  uint64_t num_chunks = 0;
  // Number of chunks from the root until the first chunk that several chunks follow, or that no
  // chunk follows. All sequences with the prefix share these chunks.
  uint64_t num_shared = 0;
  uint64_t num_longest = 0;  // number of chunks of the longest sequence
  uint64_t tenant = 0;       // tenant of the root
  bool has_several_tenants = false;
  uint32_t hits_max = 0;  // hits of the chunk with the most hits
  int64_t oldest_s = 0, newest_s = 0;
  int64_t next_expiry_s = 0;  // earliest expiry of a chunk; 0: no chunk expires
};

// Returns the prefixes of `chunks`, in any order. If several chunks have the same key, only the
// last of these chunks counts. The fields may have any values.
std::vector<StoredPrefix> GroupByPrefix(const std::vector<StoredChunk>& chunks);

}  // namespace incipit
