// The sequence of changes of the prefix cache, as messages for subscribers.
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

// Converts the events of the engine to batches with consecutive sequence numbers, keeps the latest
// batches, and makes snapshots. Not thread-safe.
//
// The feed is complete after the engine has reported all blocks that were cached before the event
// kRestarted. Only a complete feed has batches and snapshots.
class KvEventFeed {
 public:
  // Maximum number of snapshots in memory.
  static constexpr size_t kSnapshotsMax = 2;

  // The first batch has the sequence number `first_sequence` + 1. Keeps batches of at most
  // `history_bytes_max` bytes, but at least one batch.
  KvEventFeed(int32_t block_size, size_t history_bytes_max, uint64_t first_sequence)
      : mirror_(block_size), history_bytes_max_(history_bytes_max), sequence_(first_sequence) {}

  // Applies events of the engine. Returns true if the engine must report further cached blocks.
  [[nodiscard]] bool Apply(const KvEvents& events);
  // Forgets all blocks and batches, and ignores all events up to the next kRestarted.
  void Reset();

  bool is_complete() const { return is_complete_; }
  // Returns the sequence number of the last batch.
  uint64_t sequence() const { return sequence_; }
  // Returns true if the feed is complete and has all batches after the batch `sequence`.
  bool Follows(uint64_t sequence) const;
  // Returns the batch after the batch `sequence`. REQUIRES: Follows(`sequence`), and `sequence` is
  // less than sequence().
  KvMessage After(uint64_t sequence) const;
  // Returns the contents of the cache, after which Follows is true. Subscribers share snapshots.
  // Returns null if kSnapshotsMax older snapshots are still in use. REQUIRES: the feed is complete.
  std::shared_ptr<const KvSnapshotMessages> Snapshot();

 private:
  bool ApplyOne(const KvEvent& event, std::span<const TokenId> tokens);
  // Adds the changes in `batch_` to the history.
  void Publish();

  KvMirror mirror_;
  const size_t history_bytes_max_;
  KvBatchBuilder batch_{1};
  bool awaits_restart_ = true;  // true: events up to the next kRestarted are ignored
  bool is_complete_ = false;
  uint64_t sequence_;
  std::deque<KvMessage> history_;  // the latest batches; the last one has the number `sequence_`
  size_t history_bytes_ = 0;
  std::vector<std::weak_ptr<const KvSnapshotMessages>> snapshots_;  // oldest first
};

}  // namespace incipit
