// Converts the changes of the prefix cache to numbered messages for gateways.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "engine/cache_reporter.h"
#include "server/gateway/kv_batch.h"
#include "server/gateway/kv_mirror.h"

namespace incipit {

// Converts the prefix-cache events of the engine to batches (messages with changes of the cache)
// with consecutive sequence numbers. Keeps the latest batches, and makes snapshots (lists of all
// cached blocks). Not thread-safe.
//
// After the event kRestarted, the engine reports the blocks that are already in the cache. Until
// all of these blocks were reported, the feed is incomplete, and has neither batches nor snapshots.
class KvEventFeed {
 public:
  // Maximum number of snapshots in memory at the same time.
  static constexpr size_t kSnapshotsMax = 2;

  // The batches (messages with changes of the prefix cache) have sequence numbers greater than
  // `first_sequence`. The feed keeps the latest batches with a total size of at most
  // `history_bytes_max` bytes, but at least one batch.
  KvEventFeed(int32_t block_size, size_t history_bytes_max, uint64_t first_sequence)
      : mirror_(block_size), history_bytes_max_(history_bytes_max), sequence_(first_sequence) {}

  // Applies prefix-cache events of the engine. The engine reports in parts which blocks were cached
  // before the subscription. Returns true if the engine must report the next part
  // (Engine::ReportCached).
  [[nodiscard]] bool Apply(const KvEvents& events);
  // Removes all blocks and batches. From then on, Apply ignores events until the event kRestarted,
  // with which the engine begins its reports again.
  void Reset();

  bool is_complete() const { return is_complete_; }
  // Returns the sequence number of the latest batch (message with changes of the prefix cache).
  uint64_t sequence() const { return sequence_; }
  // Returns true if the feed knows all cached blocks, and still has all batches with sequence
  // numbers above `sequence`. A batch is a message with changes of the cache.
  bool Follows(uint64_t sequence) const;
  // Returns the batch with the sequence number `sequence` + 1. REQUIRES: Follows(`sequence`) is
  // true, and `sequence` is less than sequence().
  KvMessage After(uint64_t sequence) const;
  // Returns a list (snapshot) of the cached blocks. Several callers may get the same snapshot. The
  // function After still returns all batches that follow the snapshot. Returns null if
  // kSnapshotsMax older snapshots are still in use. REQUIRES: is_complete() is true.
  std::shared_ptr<const KvSnapshotMessages> Snapshot();

 private:
  bool ApplyOne(const KvEvent& event, std::span<const TokenId> tokens);
  // Moves the changes in `batch_` to `history_`, as a batch with the next sequence number.
  void Publish();

  KvMirror mirror_;
  const size_t history_bytes_max_;
  KvBatchBuilder batch_{1};
  // True: Apply ignores all events until the engine begins its reports with the event kRestarted.
  bool awaits_restart_ = true;
  bool is_complete_ = false;
  uint64_t sequence_;
  // The latest batches (messages with changes of the prefix cache). The last batch has the sequence
  // number `sequence_`.
  std::deque<KvMessage> history_;
  size_t history_bytes_ = 0;
  std::vector<std::weak_ptr<const KvSnapshotMessages>> snapshots_;  // oldest first
};

}  // namespace incipit
