// Writes records and manages segments. The writer thread of the disk tier has one DiskWriter.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "tier/disk_io.h"

namespace incipit {

class DiskWriter {
 public:
  explicit DiskWriter(DiskIo& io);
  // Executes jobs until the queues are stopped. Then executes the remaining ControlJobs, because
  // removed chunks must not come back after a restart.
  void Run();

 private:
  // The last store of a staging slot.
  struct SlotStore {
    uint64_t written = 0;    // serial of the last store that was written
    uint64_t cancelled = 0;  // serial of the last store that was cancelled before the write
    ChunkLocation at;        // location of the store `written`
  };
  struct MovedRecord {
    ChunkLocation from, to;
  };

  void RunOnce();
  // Returns true if RunOnce may try to turn the tier on. The engine thread must have processed the
  // previous epoch. Otherwise, the next index could contain chunks that Remove has removed.
  bool MayOpen() const { return !is_open_ && epoch_processed_ == epoch_; }
  // Tries to take the lock and to find all records. On failure, sets the time of the next attempt.
  void Open();
  // Turns the tier off until the next attempt.
  void Fail(absl::Status status);
  void Store(const StoreJob& job);
  void Execute(ControlJob job);
  void Erase(std::span<const ChunkLocation> locations);
  void CancelStore(uint32_t slot, uint64_t serial);
  void Reclaim(const ControlJob& job);
  absl::Status MoveRecords(uint32_t segment, const std::vector<uint32_t>& indexes);
  void Clear(uint64_t generation);
  // If a segment must be reclaimed before a new segment fits, asks the engine thread for a kReclaim
  // job. Asks only if the newest segment is at least half full, or if a store waits for room.
  void AskForRoom();
  absl::Status RemoveErased();
  // Removes all segments of the fingerprint, and the uses of their chunks.
  absl::Status RemoveAll();
  void RestoreUses(ChunkIndex& index);
  void KeepUses(const ChunkIndex& index);
  void CompleteStore(Completion completion);

  DiskIo& io_;
  SegmentStore& segments_;
  const uint32_t mover_slot_;
  bool is_open_ = false;
  bool is_locked_out_ = false;  // another process holds the lock
  bool clears_at_open_ = false;
  bool waits_for_reclaim_ = false;
  // True if the last kReclaim job has chosen the oldest segment of other fingerprints, and the
  // segment is not removed yet.
  bool removes_other_ = false;
  std::optional<StoreJob> held_store_;  // a store that waits until a segment is reclaimed
  uint64_t epoch_ = 0;                  // number of times that the tier was turned on
  uint64_t epoch_processed_ = 0;        // latest epoch that the engine thread has processed
  uint64_t generation_ = 0;             // number of calls of PrefixTier::Clear
  Time opened_{}, next_attempt_{};
  Duration pause_{};
  std::vector<SlotStore> slots_;
  // Records that the last reclaim has moved. The index may not contain the new locations yet, and
  // the segment with the old locations may not be removed yet. So Erase erases both records.
  std::vector<MovedRecord> moved_;
  std::vector<ChunkLocation> erased_;  // records to erase when the tier is on again
};

}  // namespace incipit
