// The queues between the engine thread and the I/O threads of the disk tier.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "tier/chunk_index.h"
#include "tier/segments/record.h"
#include "tier/segments/segment_store.h"

namespace incipit {

// A queue of limited size that allocates memory only in the constructor.
template <typename T>
class FixedQueue {
 public:
  explicit FixedQueue(size_t capacity) : items_(capacity) {}
  bool empty() const { return size_ == 0; }
  void Push(const T& item) {
    INCIPIT_CHECK(size_ < items_.size());
    items_[(first_ + size_++) % items_.size()] = item;
  }
  T Pop() {
    const T item = items_[first_];
    first_ = (first_ + 1) % items_.size();
    --size_;
    return item;
  }

 private:
  std::vector<T> items_;
  size_t first_ = 0, size_ = 0;
};

// A job for the writer thread: write the record in the staging slot `slot` to the disk.
struct StoreJob {
  uint32_t slot = 0;
  uint64_t serial = 0;  // identifies the store among all stores of the slot
  // Values of DiskTier::epoch_ and generation_ at the call of BeginStore. If one of these values
  // has changed since, the writer thread drops the record.
  uint64_t epoch = 0;
  uint64_t generation = 0;
};

// A job for the writer thread that has priority over StoreJobs.
struct ControlJob {
  // kErase: makes the records at `erased` invalid. kCancelStore: drops the store `serial` of the
  // staging slot `slot`, or makes its record invalid if the record is written. kReclaim: moves the
  // records `moved` of segment `segment` to the newest segment, and removes segment `segment`. If
  // `segment` is kNoSegment, removes the oldest segment of other fingerprints, but only when the
  // newest segment is full.
  // kClear: removes all segments. kTurnOff: turns the tier off because of `status`. kTurnedOn: the
  // engine thread has processed the completion kOn of `epoch`; destroys `index`, the previous
  // index. kKeepUses: writes the uses of the chunks in `index` to a file.
  enum class Kind : uint8_t {
    kErase,
    kCancelStore,
    kReclaim,
    kClear,
    kTurnOff,
    kTurnedOn,
    kKeepUses
  };
  Kind kind = Kind::kErase;
  absl::InlinedVector<ChunkLocation, 1> erased{};
  uint32_t slot = 0;
  uint64_t serial = 0;
  uint32_t segment = kNoSegment;
  std::vector<uint32_t> moved{};
  uint64_t epoch = 0;
  uint64_t generation = 0;
  absl::Status status{};
  std::unique_ptr<ChunkIndex> index{};
};

// A result of an I/O thread.
struct Completion {
  // kLoaded, kStored: the job of staging slot `slot` has ended. kMoved: the record of `key` is now
  // at `at` instead of `from`. kReclaimWanted: the writer waits for a kReclaim job for one of the
  // segments `reclaimable`. kReclaimed: the segment at.segment is removed. kOn, kOff, kLocked: the
  // new state of the tier.
  enum class Kind : uint8_t {
    kLoaded,
    kStored,
    kMoved,
    kReclaimWanted,
    kReclaimed,
    kOn,
    kOff,
    kLocked
  };
  Kind kind = Kind::kLoaded;
  uint32_t slot = 0;
  absl::Status status{};  // error of the file system, or OK
  RejectReason reason = RejectReason::kOk;
  // kStored: true if the writer dropped the record because the tier was off or was cleared.
  bool is_dropped = false;
  BlockHash key{};
  ChunkLocation from{}, at{};
  Time ended{};
  uint64_t epoch = 0;
  uint64_t generation = 0;
  std::unique_ptr<ChunkIndex> index{};  // kOn: the records on the disk
  ReclaimableSegments reclaimable{};    // kReclaimWanted
  // kReclaimWanted: memory for ControlJob::moved, with room for the records of a segment.
  std::vector<uint32_t> moved{};
};

// All functions are thread-safe. The mutex is never held during I/O.
class IoQueues {
 public:
  explicit IoQueues(uint32_t num_slots);  // `num_slots`: number of staging slots

  void PushLoad(uint32_t slot);
  void PushStore(const StoreJob& job);
  void PushControl(ControlJob job);
  // Moves the results since the last call to `completions`. REQUIRES: `completions` is empty.
  void TakeCompletions(std::vector<Completion>& completions);

  // Returns the next job of the writer thread: a ControlJob, or a StoreJob if `takes_stores` is
  // true. If there is no job until the time `deadline`, returns std::nullopt. After Stop, returns
  // only ControlJobs, and std::nullopt after the last ControlJob.
  struct WriterJob {
    std::optional<ControlJob> control;
    StoreJob store;
  };
  std::optional<WriterJob> NextWriterJob(bool takes_stores, Time deadline);
  // Takes loads from the queue and appends their staging slots to `slots`, until `slots` has
  // `num_max` elements or the queue is empty. If `waits` is true and the queue is empty, waits for
  // a load. Returns false after Stop.
  bool NextLoads(bool waits, size_t num_max, std::vector<uint32_t>& slots);
  // Adds `completion` to the results. Then, if `wakes` is true, calls the function of SetWake.
  void Complete(Completion completion, bool wakes);

  // Sets the function that other threads call when the engine thread should call TakeCompletions.
  // If `wake` is null, no function is called. If another thread calls the previous function now,
  // waits for the end of the call.
  void SetWake(std::function<void()> wake);

  // Ends all waits. No thread calls the function of SetWake after the return of Stop.
  void Stop();
  bool stopped() const { return stopped_.load(std::memory_order_relaxed); }

 private:
  Mutex mutex_;
  std::condition_variable_any load_arrived_, writer_job_arrived_;
  FixedQueue<uint32_t> loads_ ABSL_GUARDED_BY(mutex_);
  FixedQueue<StoreJob> stores_ ABSL_GUARDED_BY(mutex_);
  std::vector<ControlJob> controls_ ABSL_GUARDED_BY(mutex_);
  std::vector<Completion> completions_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> has_completions_ = false;
  std::atomic<bool> stopped_ = false;
  // Held during the call of `wake_`, so that Stop can wait for the end of the call.
  Mutex wake_mutex_;
  std::function<void()> wake_ ABSL_GUARDED_BY(wake_mutex_);
};

}  // namespace incipit
