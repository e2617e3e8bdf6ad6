// DiskTier: stores chunks in files of a directory. docs/tiers.md describes the files, and the
// behaviour on failures.
//
// DiskTier runs on the engine thread and never calls the file system. DiskIo has the threads that
// read and write files.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "kvcache/tiers/prefix_tier.h"
#include "tier/chunk_index.h"
#include "tier/disk_io.h"
#include "tier/files/posix_file_system.h"
#include "tier/load_rate.h"
#include "tier/reuse_filter.h"
#include "tier/segments/record.h"
#include "tier/staging.h"
#include "tier/tier_stats.h"
#include "tier/write_budget.h"

namespace incipit {

// kAll: every chunk is stored. kReused: a chunk is stored when BeginStore is called for the chunk a
// second time.
enum class StorePolicy : uint8_t { kAll, kReused };
inline constexpr EnumName<StorePolicy> kStorePolicyNames[] = {{StorePolicy::kAll, "all"},
                                                              {StorePolicy::kReused, "reused"}};

struct DiskTierOptions {
  std::string directory;
  uint64_t size_bytes = 0;  // maximum size of all segments in the directory
  uint64_t staging_bytes = uint64_t{256} << 20;
  uint64_t segment_bytes = kSegmentBytes;
  uint64_t write_bytes_per_second = 0;  // 0: no limit
  // Maximum share of `size_bytes` for the chunks of one tenant, from 0 to 1; 1: no limit.
  double tenant_share_max = 1;
  StorePolicy store = StorePolicy::kAll;
  IoMethod io = IoMethod::kAuto;
  Fingerprint fingerprint{};
  ChunkShape shape;
  // Searches keys and values for NaN and infinity. I/O threads call `is_finite` for loads and
  // stores. Null: no check.
  FiniteCheck is_finite = nullptr;
  const Clock* clock = nullptr;  // outlives the tier and its threads
  // Returns the time in seconds since 1970. Any thread may call `unix_seconds`.
  std::function<int64_t()> unix_seconds;
  // Poll calls `on_state` when the state of the tier has changed. If the state is kOff, the status
  // is the reason; otherwise, the status is OK. `on_state` may be empty.
  std::function<void(TierState, const absl::Status&)> on_state;

  // A load that takes longer than `load_deadline` fails. The tier turns off if loads are pending
  // and no load ends for `load_deadline`, or if stores are pending and no store ends for
  // `store_deadline`.
  Duration load_deadline = std::chrono::seconds(5);
  Duration store_deadline = std::chrono::seconds(30);
  Duration lock_retry = std::chrono::milliseconds(250);
  Duration retry_pause_min = std::chrono::seconds(1);
  Duration retry_pause_max = std::chrono::minutes(5);
  Duration stop_limit = std::chrono::seconds(2);  // time that the destructor waits for the disk
  // Load rate in bytes per second that PredictLoad assumes before the first load.
  double assumed_load_rate = 200e6;
};

class DiskTier final : public PrefixTier {
 public:
  // Maximum number of loads that fail in a row before the tier is turned off.
  static constexpr int kLoadErrorsMax = 3;
  // When the tier turns on, the tier repeats the calls of Remove since it was turned on the last
  // time. If there were kRemovedKeysMax or more of these calls, the tier removes all chunks
  // instead.
  static constexpr size_t kRemovedKeysMax = 1024;

  // Checks the options and the directory, and starts the I/O threads. Loads and stores are possible
  // after an I/O thread has found the records on the disk (TierState::kOn). Returns
  // INVALID_ARGUMENT for a size that is too small, PERMISSION_DENIED if the directory or one of its
  // files is not private, and other errors if the directory cannot be used. Every message names the
  // file.
  static absl::StatusOr<std::unique_ptr<DiskTier>> Create(DiskTierOptions options);
  // As above, but uses `files`. REQUIRES: files->Prepare() has returned OK.
  static absl::StatusOr<std::unique_ptr<DiskTier>> Create(DiskTierOptions options,
                                                          std::unique_ptr<FileSystem> files);
  // Waits at most options.stop_limit for the I/O threads. Drops stores that are not written. If the
  // tier is on, writes the uses of the chunks to a file.
  ~DiskTier() override;

  const ChunkShape& shape() const override { return options_.shape; }
  bool Has(const BlockHash& key) const override;
  bool Touch(const BlockHash& key, const Retention& retention) override;
  Duration PredictLoad(int32_t num_chunks) const override;
  std::optional<LoadTicket> Load(const ChunkIdentity& chunk) override;
  LoadState state(LoadTicket ticket) const override;
  std::span<const std::byte> bytes(LoadTicket ticket) const override;
  void Release(LoadTicket ticket) override;
  StoreRoom RoomFor(const BlockHash& key) const override;
  std::optional<StoreTicket> BeginStore(const ChunkIdentity& chunk,
                                        const Retention& retention) override;
  std::span<std::byte> bytes_of(StoreTicket ticket) override;
  void FinishStore(StoreTicket ticket) override;
  void CancelStore(StoreTicket ticket) override;
  bool Poll() override;
  // I/O threads call `wake` when the engine thread should call Poll: a load or a store has ended,
  // or the state of the tier has changed. The state may have changed before the call of SetWake. No
  // thread calls `wake` after the destruction of the tier.
  void SetWake(std::function<void()> wake) override { io_->queues().SetWake(std::move(wake)); }
  // Remove and Clear may allocate memory. An I/O thread changes the files after the call.
  void Remove(const BlockHash& key) override;
  void Clear() override;

  TierState tier_state() const { return state_; }
  // Returns the reason why the tier was turned off the last time. Returns OK if the tier was never
  // turned off.
  const absl::Status& last_error() const { return last_error_; }
  // Returns true if stores are not written yet. The server waits for these stores before it ends.
  bool has_pending_stores() const { return num_stores_ > 0; }
  TierStats stats() const;
  // Returns stats() as of the latest call of Poll. Any thread may call this function.
  TierStats published_stats() const;
  // Waits until all stores are written, but at most until `limit` has passed. Returns false if
  // stores are left. REQUIRES: the engine has stopped.
  bool Flush(Duration limit);

 private:
  // kFree: on the list of free slots. kLoad: the slot has a load. kStore: BeginStore reserved the
  // slot. kWriting: FinishStore was called.
  enum class Use : uint8_t { kFree, kLoad, kStore, kWriting };
  static constexpr uint32_t kNoSlot = UINT32_MAX;
  struct Slot {
    Use use = Use::kFree;
    LoadState state = LoadState::kPending;
    bool is_reading = false;  // an I/O thread uses the slot
    uint32_t num_tickets = 0;
    uint64_t serial = 0;                 // number of times that the slot was taken
    uint64_t epoch = 0, generation = 0;  // epoch_ and generation_ when the slot was taken
    Time started{}, deadline = kNoDeadline;
    BlockHash key{};
    ChunkLocation at{};
    uint32_t next_load = kNoSlot;  // next slot in the same bucket of load_buckets_
  };

  DiskTier(DiskTierOptions options, std::shared_ptr<DiskIo> io, uint32_t num_slots);

  Slot& SlotOf(uint64_t ticket, Use use);
  const Slot& SlotOf(uint64_t ticket, Use use) const;
  uint32_t IndexOf(const Slot& slot) const { return static_cast<uint32_t>(&slot - slots_.data()); }
  Slot& Take(Use use);
  void Free(Slot& slot);
  uint64_t TicketOf(const Slot& slot) const { return slot.serial << 16 | IndexOf(slot); }

  uint32_t& LoadBucketOf(const BlockHash& key) {
    return load_buckets_[key.prefix() % load_buckets_.size()];
  }
  void LinkLoad(Slot& slot);
  void UnlinkLoad(Slot& slot);
  void StartRead(Slot& slot);
  const IndexedChunk* FindStored(const BlockHash& key) const;
  std::optional<uint32_t> FindLoad(const BlockHash& key) const;
  bool LastsFor(const IndexedChunk& chunk, const Retention& retention) const;
  std::optional<StoreDrop> ReasonToDrop(const ChunkIdentity& chunk, const Retention& retention,
                                        Time now);
  bool ExceedsShare(const ChunkIdentity& chunk) const;
  void EraseOneExpired();
  bool HasSlotForStore() const;
  void Drop(StoreDrop reason) { ++stats_.dropped[static_cast<size_t>(reason)]; }
  void DropStore(Slot& slot, StoreDrop reason);

  // disk_tier_poll.cpp
  void Publish();
  bool Apply(Completion& completion);
  bool ApplyLoaded(const Completion& completion);
  bool LoadMoved(Slot& slot);
  void ApplyStored(const Completion& completion);
  void ApplyMoved(const Completion& completion);
  void ApplyReclaimWanted(Completion& completion);
  bool ApplyOn(Completion& completion);
  bool TurnOff(const absl::Status& status);
  bool FailLoads();  // returns true if a load was pending
  bool CheckDeadlines(Time now);
  bool FailLate(Slot& slot);
  void DropChunk(const BlockHash& key, ChunkLocation at);
  void RemoveTree(const BlockHash& key);

  const DiskTierOptions options_;
  const RecordLayout layout_;
  const std::shared_ptr<DiskIo> io_;
  std::vector<Slot> slots_;
  FreeSlots free_;
  std::vector<uint32_t> load_buckets_;  // hash table of the slots with Use::kLoad, by key
  std::unique_ptr<ChunkIndex> index_;   // null until the tier is on for the first time
  std::vector<Completion> completions_;
  TierState state_ = TierState::kStarting;
  absl::Status last_error_;
  // Number of times that the tier was turned on, and number of calls of Clear.
  uint64_t epoch_ = 0, generation_ = 0;
  // Arguments of the calls of Remove since the tier was turned on the last time.
  std::vector<BlockHash> removed_keys_;
  WriteBudget budget_;
  ReuseFilter filter_;
  LoadRate rate_;
  int load_errors_in_a_row_ = 0;
  Time last_load_end_{}, last_store_end_{};
  uint32_t num_loads_ = 0;            // loads that an I/O thread has not ended
  uint32_t num_stores_ = 0;           // slots with Use::kStore or Use::kWriting
  Time next_deadline_ = kNoDeadline;  // not later than the deadline of any slot
  TierStats stats_;                   // only the counters
  // True if a value of stats() may have changed since the latest call of Publish.
  bool has_new_stats_ = true;
  TierState reported_state_ = TierState::kStarting;  // the latest argument of options_.on_state
  mutable Mutex published_mutex_;
  TierStats published_ ABSL_GUARDED_BY(published_mutex_);
};

}  // namespace incipit
