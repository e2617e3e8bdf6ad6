// A simulation of the disk tier behind the prefix cache of the device, for `incipit replay`. The
// simulation determines which chunks of keys and values are on the disk at which time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <queue>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "tier/chunk_index.h"

namespace incipit {

// Bytes of one segment, the unit in which the disk tier writes and reclaims.
inline constexpr int64_t kDiskSegmentBytes = int64_t{64} << 20;
// Bytes of the queue of chunks that wait to be written.
inline constexpr int64_t kDiskQueueBytes = int64_t{256} << 20;

struct SimulatedDiskOptions {
  int64_t chunk_bytes = 1;       // bytes of one chunk, at least 1
  int64_t segments_max = 2;      // size of the disk in segments, at least 2
  double write_bytes_per_s = 0;  // 0: writes take no time
  int64_t queue_bytes = kDiskQueueBytes;
  // If a chunk has more bytes than a segment, each segment has one chunk.
  int64_t segment_bytes = kDiskSegmentBytes;
  int64_t chunks_max = int64_t{1} << 20;  // maximum number of distinct chunks
};

// All numbers are chunks.
struct SimulatedDiskCounts {
  int64_t stored = 0;          // written for the first time, or again after they were lost
  int64_t dropped_stores = 0;  // not written, because the queue was full
  int64_t moved = 0;           // written again, because their segment was reclaimed
  int64_t reclaimed = 0;       // lost, because their segment was reclaimed
  int64_t loaded = 0;          // read
};

// Writes are sequential: chunks leave a bounded queue in the order of their arrival, and fill one
// segment after the other. If the newest segment is half full and the disk has no room for another
// segment, a segment is reclaimed. As in the disk tier, ChunkIndex chooses the segment and the
// chunks to keep. The kept chunks are written next, to the newest segment. All other chunks of the
// segment are lost.
//
// Times are in seconds and do not decrease from call to call.
class SimulatedDisk {
 public:
  using Chunk = uint32_t;  // the key of a chunk

  explicit SimulatedDisk(const SimulatedDiskOptions& options);

  // Simulates all writes until time `now`.
  void Advance(double now);
  // Returns true if the chunk can be loaded now. A chunk that waits to be written cannot be loaded,
  // except a chunk that moves to another segment.
  bool Has(Chunk chunk) const;
  // Reads and uses the chunk. REQUIRES: Has(chunk).
  void Load(Chunk chunk);
  // Queues the chunk at time `when`, at or after the time of the latest Advance. If the disk has
  // the chunk, only uses the chunk. Has no effect if the chunk is queued or will be queued.
  void Store(Chunk chunk, double when);

  const SimulatedDiskCounts& counts() const { return counts_; }

 private:
  struct Segment {
    uint32_t number = 0;
    std::vector<Chunk> chunks{};  // some of the chunks may have moved
  };
  struct QueuedWrite {
    Chunk chunk = 0;
    std::optional<ChunkLocation> moved_from{};  // absent: the chunk is stored
  };
  struct Announced {
    double when = 0;
    int64_t order = 0;
    Chunk chunk = 0;
    friend bool operator>(const Announced& a, const Announced& b) {
      return a.when != b.when ? a.when > b.when : a.order > b.order;
    }
  };

  bool has_room_in_queue() const {
    return (static_cast<int64_t>(queue_.size()) + 1) * options_.chunk_bytes <= options_.queue_bytes;
  }
  bool has_all_segments() const {
    return static_cast<int64_t>(segments_.size()) == options_.segments_max;
  }
  void Enqueue(Chunk chunk, double when);
  double WriteSeconds() const;
  void EndWrite();
  void Reclaim();

  SimulatedDiskOptions options_;
  size_t chunks_per_segment_;
  ChunkIndex index_;                    // the chunks that can be loaded
  absl::flat_hash_set<Chunk> waiting_;  // chunks that are or will be queued to be stored
  // Chunks that will be queued, the earliest first.
  std::priority_queue<Announced, std::vector<Announced>, std::greater<>> announced_;
  std::deque<QueuedWrite> queue_;  // the chunk at the front is being written
  double write_end_ = 0;           // time at which the write of the front of the queue ends
  std::vector<Segment> segments_;  // sorted by number; chunks are written to the last segment
  uint32_t next_number_ = 1;
  int64_t num_announced_ = 0;
  SimulatedDiskCounts counts_;
};

}  // namespace incipit
