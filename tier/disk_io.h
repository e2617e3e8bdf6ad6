// The I/O threads of the disk tier: one thread writes, other threads read. The threads share one
// DiskIo, which is destroyed after the last thread has ended. So the tier can be destroyed while a
// thread hangs in a system call.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "tier/files/file_system.h"
#include "tier/io_queues.h"
#include "tier/segments/record.h"
#include "tier/segments/segment_store.h"
#include "tier/staging.h"

namespace incipit {

struct DiskIoOptions {
  SegmentStoreOptions segments;
  uint32_t num_slots = 0;       // staging slots for loads and stores
  uint32_t index_capacity = 0;  // maximum number of chunks
  FiniteCheck is_finite = nullptr;
  const Clock* clock = nullptr;
  std::function<int64_t()> unix_seconds;
  Duration lock_retry{};  // time between two attempts to take the lock of the directory
  // Time between two attempts to use a disk that has failed. The time doubles after each failure.
  Duration retry_pause_min{}, retry_pause_max{};
};

// The load of one staging slot. The engine thread writes the fields before IoQueues::PushLoad.
struct LoadJob {
  ChunkIdentity wanted;
  std::vector<TokenId> tokens;  // the token ids to which wanted.tokens refers
  ChunkLocation at;
  // True if the bytes are not needed any more. The reader then may skip the load.
  std::atomic<bool> is_cancelled = false;
};

class DiskIo {
 public:
  DiskIo(std::unique_ptr<FileSystem> file_system, DiskIoOptions options);

  // Starts the threads. Each thread keeps `io` alive.
  static void Start(const std::shared_ptr<DiskIo>& io);
  // Asks the threads to end, and waits at most `limit` for the end. After the return, no thread
  // calls the function of IoQueues::SetWake. Returns false if a thread still waits for the disk.
  bool Stop(Duration limit);

  IoQueues& queues() { return queues_; }
  LoadJob& load(uint32_t slot) { return loads_[slot]; }
  std::span<std::byte> record(uint32_t slot) const { return staging_.slot(slot); }
  // Number of bytes of all segments in the directory.
  uint64_t num_bytes() const { return num_bytes_.load(std::memory_order_relaxed); }

 private:
  friend class DiskWriter;
  friend class DiskReader;

  void Run(bool is_writer);

  const std::unique_ptr<FileSystem> file_system_;
  const DiskIoOptions options_;
  SegmentStore segments_;  // reader threads use only segments_.files()
  // Has one slot more than options_.num_slots. The writer thread uses the last slot to move
  // records.
  const StagingMemory staging_;
  std::vector<LoadJob> loads_;
  IoQueues queues_;
  std::atomic<uint64_t> num_bytes_ = 0;
  Mutex mutex_;
  std::condition_variable_any thread_ended_;
  int num_threads_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace incipit
