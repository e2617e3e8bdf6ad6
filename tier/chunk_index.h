// ChunkIndex: contains the key and the location of each chunk of the disk tier. The index is in
// memory. The index takes at most 128 bytes of memory per chunk, including hash tables.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "kvcache/keys/block_hash.h"
#include "kvcache/retention.h"
#include "tier/chunk_uses.h"
#include "tier/tenant_chunks.h"

namespace incipit {

// The position of a record: number of the segment (from 1), and index of the record in the segment.
// If a chunk is not written yet, `segment` is kNoSegment, and `index` is a number that the caller
// chooses.
struct ChunkLocation {
  uint32_t segment = 0;
  uint32_t index = 0;

  friend bool operator==(const ChunkLocation&, const ChunkLocation&) = default;
};
inline constexpr uint32_t kNoSegment = 0;

// The values that ChunkIndex stores for one chunk.
struct IndexedChunk {
  BlockHash key;
  uint64_t parent = 0;    // first 8 bytes of the key of the previous chunk
  bool is_first = false;  // true if the chunk is the first chunk of its sequences
  uint8_t priority = kRetentionPriorityDefault;  // retention priority
  uint16_t tenant_counter = 0;                   // number in TenantChunks; set by ChunkIndex
  uint32_t expires_s = 0;                        // seconds since 1970; 0: the chunk does not expire
  ChunkLocation at;
};

// A segment and the median of the last uses of its records.
struct SegmentUse {
  uint32_t segment = kNoSegment;
  uint32_t median = 0;
};

// Converts an expiry and a retention priority, which may come from a file, to the types of
// IndexedChunk.
inline uint32_t ClampExpiry(int64_t expires_s) {
  // A time before 1970 becomes 1 second after, because 0 means that the chunk does not expire.
  if (expires_s == 0) return 0;
  return static_cast<uint32_t>(std::clamp<int64_t>(expires_s, 1, UINT32_MAX));
}
inline uint8_t ClampPriority(int64_t priority) {
  return static_cast<uint8_t>(std::clamp<int64_t>(priority, 0, kRetentionPriorityMax));
}

// The unit of time of the index is the write of a segment. The last use of a chunk is the number of
// the newest segment at the time of the use, and the age of a chunk is the number of segments that
// were begun since. A chunk is used when it is stored, and by Touch and AddHit. A move does not
// count as a use.
//
// Two threads must not call functions at the same time. Only the constructor allocates memory, with
// two exceptions: the list of segments may grow, and some comments state that a function may
// allocate memory.
class ChunkIndex {
 public:
  // Maximum number of medians that one call of FindLeastUsed computes.
  static constexpr int kMediansMax = 64;
  // A chunk is worth keeping if its age is below kKeptAgeMax times the median age of its segment. A
  // lower value means fewer writes, a higher value more hits (docs/lab/2026-11-27-disk-reclaim.md).
  static constexpr double kKeptAgeMax = 0.75;

  // Creates an empty index for at most `capacity` chunks in about `num_segments` segments.
  explicit ChunkIndex(uint32_t capacity, uint32_t num_segments = 64);

  // Adds `chunk`, which counts for `tenant`. If the index has a chunk with the same key, the new
  // location, expiry, priority and tenant replace the old ones. Returns false if the index is full.
  bool Insert(const IndexedChunk& chunk, uint64_t tenant = 0);
  // Returns the chunk with the key `key`, or null. The pointer is valid until the next call of a
  // function that is not const.
  const IndexedChunk* Find(const BlockHash& key) const;
  // Changes the location of the chunk `key` from `from` to `to`. Returns false if the index does
  // not have the chunk at `from`. If the chunk was not written before, the change is a use.
  bool Move(const BlockHash& key, ChunkLocation from, ChunkLocation to);
  // Lowers the priority of the chunk `key` to the default if the priority is higher.
  void EndHighPriority(const BlockHash& key);
  // Removes the chunk `key` if the index has the chunk at the location `at`.
  bool Erase(const BlockHash& key, ChunkLocation at);
  // Returns true if the index has the chunk `key` at the location `at`.
  bool Has(const BlockHash& key, ChunkLocation at) const;
  // Records a use of the chunk `key` by a request with the retention priority `priority`. Raises
  // the priority of the chunk to `priority` if the priority is lower.
  void Touch(const BlockHash& key, uint8_t priority = 0);
  // Records a use of the chunk `key` by a load, and adds 1 to the hits of the chunk.
  void AddHit(const BlockHash& key);

  // Removes all chunks of the segment `segment`. Returns the number of removed chunks.
  size_t EraseSegment(uint32_t segment);
  // Returns the segment with the oldest median of last uses among `segments`, and the oldest
  // segment among equal medians. A record without a chunk in the index counts as never used (0).
  // REQUIRES: `segments` is sorted and not empty, `num_records` is the number of records of a
  // segment, and `scratch` is empty.
  //
  // The function computes the medians of at most kMediansMax segments. If more medians have changed
  // since they were computed, the result may be a segment with a newer median. Allocates no memory
  // if the capacity of `scratch` is `num_records` and the index knows `segments`.
  SegmentUse FindLeastUsed(std::span<const uint32_t> segments, size_t num_records,
                           std::vector<uint32_t>& scratch);
  // Computes the medians of all segments, so that the first calls of FindLeastUsed find the segment
  // with the oldest median. Allocates memory.
  void ComputeMedians(size_t num_records);
  // Tells the index that the folder has segments with numbers up to `segment`, which may belong to
  // other fingerprints.
  void RaiseNewest(uint32_t segment) { newest_segment_ = std::max(newest_segment_, segment); }
  // Appends to `indexes` the record indexes of the chunks of `segment.segment` that are worth
  // keeping: the chunks that are clearly younger than the median (age below kKeptAgeMax of the age
  // of segment.median), and the chunks with a priority above the default. Appends at most `num_max`
  // chunks: highest priority first, then the youngest chunk first, then the first record first. So
  // the beginning of a prompt is kept rather than its end. Skips chunks that have expired at the
  // time `now_s`. Allocates no memory if the capacity of `indexes` is the number of records of a
  // segment.
  void ListKept(const SegmentUse& segment, size_t num_max, int64_t now_s,
                std::vector<uint32_t>& indexes) const;

  // Returns a chunk on the disk that has expired at the time `now_s`, or null. Each call examines
  // only the next `num_visits` chunks of the index.
  const IndexedChunk* NextExpired(int64_t now_s, uint32_t num_visits);

  // Returns the uses of the chunks that have hits, or whose last use is not the write of their
  // segment: at most `num_max` chunks, the oldest first, without the oldest ones. Allocates memory.
  std::vector<ChunkUses> ListUses(size_t num_max) const;
  // Sets the uses of the chunks that the index has. `uses` may come from a file and have any
  // values.
  void RestoreUses(std::span<const ChunkUses> uses);

  // Removes the chunk `key` and all chunks that follow the chunk in any sequence. Also removes each
  // chunk whose previous chunk is missing, and all chunks that follow it, because the index cannot
  // determine whether these chunks follow `key`. Calls `removed` for each removed chunk. May
  // allocate memory.
  void RemoveTree(const BlockHash& key, absl::FunctionRef<void(const IndexedChunk&)> removed);
  void Clear();

  // Returns the number of chunks of `tenant`. If more than TenantChunks::kTenantsMax tenants have
  // chunks, some tenants are counted together.
  uint32_t num_of_tenant(uint64_t tenant) const { return tenants_.num_of(tenant); }
  // Returns true if num_of_tenant(`tenant`) counts `chunk`, a chunk of the index.
  bool IsOfTenant(const IndexedChunk& chunk, uint64_t tenant) const {
    return tenants_.IsCounterOf(chunk.tenant_counter, tenant);
  }
  uint32_t size() const { return size_; }
  uint32_t capacity() const { return capacity_; }
  // Returns the number of bytes of memory that the index uses when it is full.
  size_t num_bytes() const;

 private:
  static constexpr uint32_t kNone = 0;  // link to no entry
  struct Entry {
    IndexedChunk chunk;
    uint32_t next_of_key = kNone;     // next entry in the same bucket of `by_key_`
    uint32_t next_of_parent = kNone;  // next entry in the same bucket of `by_parent_`
    uint32_t next_in_segment = kNone, previous_in_segment = kNone;
    uint32_t last_use = 0;
    uint32_t hits = 0;
  };
  struct SegmentList {
    uint32_t segment = kNoSegment;
    uint32_t first = kNone;
    // Lower bound of the median of the last uses. Uses only raise a median, and Unlink sets this
    // bound to 0.
    uint32_t median_min = 0;
  };
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  template <typename T>
  using Array = std::unique_ptr<T[], Free>;

  uint32_t* BucketOf(uint64_t prefix, const Array<uint32_t>& table) const {
    return &table[(prefix * 0x9E3779B97F4A7C15) >> bucket_shift_];
  }
  uint32_t FindEntry(const BlockHash& key) const;
  // Returns the list of `segment`. Adds an empty list if there is none.
  SegmentList& ListOf(uint32_t segment);
  uint32_t MedianOf(const SegmentList& list, size_t num_records,
                    std::vector<uint32_t>& scratch) const;
  uint32_t AgeOf(uint32_t last_use) const { return newest_segment_ - last_use; }
  void Link(uint32_t id, ChunkLocation at);
  void Unlink(uint32_t id);
  void Remove(uint32_t id);
  bool HasPrefix(uint64_t prefix) const;
  // Appends to `ids` the entries whose previous chunk is missing.
  void ListOrphans(std::vector<uint32_t>& ids) const;

  const uint32_t capacity_;
  uint32_t bucket_shift_;
  size_t num_buckets_;
  // Entry 0 is not used, so that link 0 is "no entry". The operating system provides zeroed pages
  // at the first use of each page.
  Array<Entry> entries_;
  Array<uint32_t> by_key_, by_parent_;
  std::vector<SegmentList> segments_;  // sorted by segment
  uint32_t num_created_ = 0;           // entries that were in use at any time
  uint32_t free_ = kNone;              // list of unused entries, linked by next_of_key
  uint32_t size_ = 0;
  uint32_t newest_segment_ = kNoSegment;  // highest segment number so far
  uint32_t next_visited_ = 1;             // entry that NextExpired examines next
  TenantChunks tenants_;
};

}  // namespace incipit
