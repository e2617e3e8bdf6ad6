#include "tier/disk_tier.h"

#include <algorithm>
#include <condition_variable>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/status.h"

namespace incipit {
namespace {

constexpr uint64_t kSlotsMax = 1 << 16;  // a ticket has 16 bits for the slot
constexpr uint64_t kSlotsMin = 4;        // loads, stores, and a slot for moved records
constexpr uint64_t kSegmentsMin = 2;     // one segment to write, one segment to reclaim
// Number of chunks among which each call of BeginStore searches for an expired chunk.
constexpr uint32_t kExpiredVisits = 8;

absl::Status CheckOptions(const DiskTierOptions& options, const RecordLayout& layout) {
  const uint64_t record_bytes = layout.record_bytes;
  if (options.segment_bytes % kPageBytes != 0 ||
      SegmentLayout(options.segment_bytes, record_bytes).num_records == 0) {
    return InvalidArgument(
        "a chunk needs {} bytes on the disk, which do not fit into a segment of {} bytes",
        record_bytes, options.segment_bytes);
  }
  if (options.size_bytes < kSegmentsMin * options.segment_bytes) {
    return InvalidArgument("the size of the disk tier is {} bytes; the minimum is {} bytes",
                           options.size_bytes, kSegmentsMin * options.segment_bytes);
  }
  if (options.size_bytes / record_bytes >= std::numeric_limits<uint32_t>::max() / 4) {
    return InvalidArgument(
        "the size of the disk tier is {} bytes, which is too many chunks of {} "
        "bytes",
        options.size_bytes, record_bytes);
  }
  if (options.staging_bytes < kSlotsMin * record_bytes) {
    return InvalidArgument("staging has {} bytes; the minimum is {} chunks of {} bytes",
                           options.staging_bytes, kSlotsMin, record_bytes);
  }
  return absl::OkStatus();
}

// Returns the time to live of `retention` in whole seconds, rounded down; 0: no limit, or less than
// one second.
int64_t SecondsToLive(const Retention& retention) {
  return std::chrono::duration_cast<std::chrono::seconds>(retention.time_to_live).count();
}

}  // namespace

absl::StatusOr<std::unique_ptr<DiskTier>> DiskTier::Create(DiskTierOptions options) {
  auto files = MakePosixFileSystem(options.directory, options.io);
  INCIPIT_RETURN_IF_ERROR(files->Prepare());
  return Create(std::move(options), std::move(files));
}

absl::StatusOr<std::unique_ptr<DiskTier>> DiskTier::Create(DiskTierOptions options,
                                                           std::unique_ptr<FileSystem> files) {
  INCIPIT_CHECK(options.clock != nullptr && options.unix_seconds != nullptr);
  const RecordLayout layout(options.shape);
  INCIPIT_RETURN_IF_ERROR(CheckOptions(options, layout));
  const uint64_t num_all = std::min(kSlotsMax, options.staging_bytes / layout.record_bytes);
  const auto num_slots = static_cast<uint32_t>(num_all - 1);  // the writer uses one slot
  auto io = std::make_shared<DiskIo>(
      std::move(files),
      DiskIoOptions{.segments = {.fingerprint = options.fingerprint,
                                 .record = layout,
                                 .segment_bytes = options.segment_bytes,
                                 .size_bytes = options.size_bytes},
                    .num_slots = num_slots,
                    .index_capacity =
                        static_cast<uint32_t>(options.size_bytes / layout.record_bytes) + num_slots,
                    .is_finite = options.is_finite,
                    .clock = options.clock,
                    .unix_seconds = options.unix_seconds,
                    .lock_retry = options.lock_retry,
                    .retry_pause_min = options.retry_pause_min,
                    .retry_pause_max = options.retry_pause_max});
  DiskIo::Start(io);
  return std::unique_ptr<DiskTier>(new DiskTier(std::move(options), std::move(io), num_slots));
}

DiskTier::DiskTier(DiskTierOptions options, std::shared_ptr<DiskIo> io, uint32_t num_slots)
    : options_(std::move(options)),
      layout_(options_.shape),
      io_(std::move(io)),
      slots_(num_slots),
      free_(num_slots),
      load_buckets_(num_slots, kNoSlot),
      budget_(options_.write_bytes_per_second,
              std::max(options_.segment_bytes, options_.write_bytes_per_second)),
      rate_(FromSeconds(static_cast<double>(layout_.record_bytes) / options_.assumed_load_rate)) {
  completions_.reserve(2 * size_t{num_slots} + 64);
  removed_keys_.reserve(kRemovedKeysMax);
}

DiskTier::~DiskTier() {
  // The writer thread keeps the uses of the chunks only if the index describes the files.
  if (state_ == TierState::kOn) {
    io_->queues().PushControl(
        {.kind = ControlJob::Kind::kKeepUses, .epoch = epoch_, .index = std::move(index_)});
  }
  io_->Stop(options_.stop_limit);
}

const DiskTier::Slot& DiskTier::SlotOf(uint64_t ticket, Use use) const {
  const size_t index = ticket & (kSlotsMax - 1);
  INCIPIT_CHECK(index < slots_.size());
  const Slot& slot = slots_[index];
  INCIPIT_CHECK(slot.use == use && slot.serial == ticket >> 16);
  return slot;
}
DiskTier::Slot& DiskTier::SlotOf(uint64_t ticket, Use use) {
  return const_cast<Slot&>(std::as_const(*this).SlotOf(ticket, use));
}

// REQUIRES: a slot is free.
DiskTier::Slot& DiskTier::Take(Use use) {
  const std::optional<uint32_t> index = free_.Take();
  INCIPIT_CHECK(index.has_value());
  Slot& slot = slots_[*index];
  slot = {.use = use, .serial = slot.serial + 1, .epoch = epoch_, .generation = generation_};
  return slot;
}

void DiskTier::Free(Slot& slot) {
  if (slot.use == Use::kLoad) UnlinkLoad(slot);
  slot.use = Use::kFree;
  slot.deadline = kNoDeadline;
  free_.Put(IndexOf(slot));
}

// Returns the chunk `key` if the chunk is on the disk and has not expired.
const IndexedChunk* DiskTier::FindStored(const BlockHash& key) const {
  if (state_ != TierState::kOn) return nullptr;
  const IndexedChunk* const chunk = index_->Find(key);
  if (chunk == nullptr || chunk->at.segment == kNoSegment) return nullptr;
  if (chunk->expires_s != 0 && chunk->expires_s <= options_.unix_seconds()) return nullptr;
  return chunk;
}

bool DiskTier::Has(const BlockHash& key) const { return FindStored(key) != nullptr; }

// Returns true if the unexpired `chunk` need not be stored again for a request with the retention
// hint `retention`. If a chunk were stored again at each use, a short time to live would cause many
// writes. So half of the time to live suffices.
bool DiskTier::LastsFor(const IndexedChunk& chunk, const Retention& retention) const {
  if (chunk.at.segment == kNoSegment || chunk.expires_s == 0) return true;
  if (retention.time_to_live == Duration::zero()) return false;
  return 2 * (chunk.expires_s - options_.unix_seconds()) >= SecondsToLive(retention);
}

bool DiskTier::Touch(const BlockHash& key, const Retention& retention) {
  if (state_ != TierState::kOn) return false;
  const IndexedChunk* const chunk = index_->Find(key);
  if (chunk == nullptr || (chunk->at.segment != kNoSegment && !Has(key))) return false;
  index_->Touch(key, ClampPriority(retention.priority));
  return LastsFor(*chunk, retention);
}

Duration DiskTier::PredictLoad(int32_t num_chunks) const {
  return rate_.Predict(num_loads_ + static_cast<size_t>(num_chunks));
}

// Returns the slot of a load of the chunk `key` that is pending or ready.
std::optional<uint32_t> DiskTier::FindLoad(const BlockHash& key) const {
  uint32_t i = load_buckets_[key.prefix() % load_buckets_.size()];
  for (; i != kNoSlot; i = slots_[i].next_load) {
    const Slot& slot = slots_[i];
    if (slot.num_tickets > 0 && slot.state != LoadState::kFailed && slot.key == key) return i;
  }
  return std::nullopt;
}

void DiskTier::LinkLoad(Slot& slot) {
  slot.next_load = std::exchange(LoadBucketOf(slot.key), IndexOf(slot));
}

void DiskTier::UnlinkLoad(Slot& slot) {
  uint32_t* link = &LoadBucketOf(slot.key);
  while (*link != IndexOf(slot)) link = &slots_[*link].next_load;
  *link = slot.next_load;
}

std::optional<LoadTicket> DiskTier::Load(const ChunkIdentity& chunk) {
  has_new_stats_ = true;
  const std::optional<uint32_t> shared = FindLoad(chunk.key);
  const IndexedChunk* const stored = FindStored(chunk.key);
  const bool is_known = shared ? SameChunk(io_->load(*shared).wanted, chunk) : stored != nullptr;
  if (!is_known || state_ != TierState::kOn || chunk.tokens.size() != layout_.num_tokens) {
    ++stats_.misses;
    return std::nullopt;
  }
  if (shared) {
    ++slots_[*shared].num_tickets;
    index_->AddHit(chunk.key);
    return LoadTicket{TicketOf(slots_[*shared])};
  }
  if (free_.size() == 0) {
    ++stats_.loads_without_slot;
    return std::nullopt;
  }
  index_->AddHit(chunk.key);
  Slot& slot = Take(Use::kLoad);
  slot.num_tickets = 1;
  slot.started = options_.clock->Now();
  slot.deadline = slot.started + options_.load_deadline;
  slot.key = chunk.key;
  slot.at = stored->at;
  LinkLoad(slot);
  next_deadline_ = std::min(next_deadline_, slot.deadline);
  LoadJob& job = io_->load(IndexOf(slot));
  CopyTokens(chunk.tokens, job.tokens);
  job.wanted = chunk;
  job.wanted.tokens = job.tokens;
  StartRead(slot);
  return LoadTicket{TicketOf(slot)};
}

// REQUIRES: LoadJob::wanted is set.
void DiskTier::StartRead(Slot& slot) {
  LoadJob& job = io_->load(IndexOf(slot));
  job.at = slot.at;
  job.is_cancelled.store(false, std::memory_order_relaxed);
  slot.is_reading = true;
  ++num_loads_;
  io_->queues().PushLoad(IndexOf(slot));
}

LoadState DiskTier::state(LoadTicket ticket) const {
  return SlotOf(static_cast<uint64_t>(ticket), Use::kLoad).state;
}

std::span<const std::byte> DiskTier::bytes(LoadTicket ticket) const {
  const Slot& slot = SlotOf(static_cast<uint64_t>(ticket), Use::kLoad);
  INCIPIT_CHECK(slot.state == LoadState::kReady);
  return layout_.PayloadOf<const std::byte>(io_->record(IndexOf(slot)));
}

void DiskTier::Release(LoadTicket ticket) {
  has_new_stats_ = true;
  Slot& slot = SlotOf(static_cast<uint64_t>(ticket), Use::kLoad);
  INCIPIT_CHECK(slot.num_tickets > 0);
  if (--slot.num_tickets > 0) return;
  if (!slot.is_reading) return Free(slot);
  // The slot stays in use until the I/O thread has ended the load.
  io_->load(IndexOf(slot)).is_cancelled.store(true, std::memory_order_relaxed);
}

// Returns true if the tenant of `chunk` would use too much of the disk after a store of `chunk`.
bool DiskTier::ExceedsShare(const ChunkIdentity& chunk) const {
  if (options_.tenant_share_max >= 1) return false;
  const double bytes_max = options_.tenant_share_max * static_cast<double>(options_.size_bytes);
  const IndexedChunk* const replaced = index_->Find(chunk.key);
  const bool replaces_own = replaced != nullptr && index_->IsOfTenant(*replaced, chunk.tenant);
  const uint64_t num_chunks =
      uint64_t{index_->num_of_tenant(chunk.tenant)} + (replaces_own ? 0 : 1);
  return static_cast<double>(num_chunks * layout_.record_bytes) > bytes_max;
}

// Removes at most one expired chunk, so that expired chunks do not count against the shares of
// their tenants for long.
void DiskTier::EraseOneExpired() {
  const IndexedChunk* const chunk = index_->NextExpired(options_.unix_seconds(), kExpiredVisits);
  if (chunk != nullptr) DropChunk(BlockHash(chunk->key), chunk->at);
}

// Stores use at most half of the slots, so that stores never prevent loads.
bool DiskTier::HasSlotForStore() const {
  return free_.size() > 0 && 2 * (num_stores_ + 1) <= slots_.size();
}

// Returns the reason why `chunk` is not stored, or std::nullopt. Call this function only if the
// tier is on and does not have the chunk for long enough.
std::optional<StoreDrop> DiskTier::ReasonToDrop(const ChunkIdentity& chunk,
                                                const Retention& retention, Time now) {
  if (retention.time_to_live != Duration::zero() && SecondsToLive(retention) == 0) {
    return StoreDrop::kTimeToLive;
  }
  if (options_.store == StorePolicy::kReused && !filter_.SeenBefore(chunk.key.prefix())) {
    return StoreDrop::kNotReused;
  }
  if (!HasSlotForStore()) return StoreDrop::kStagingFull;
  if (index_->size() >= index_->capacity()) return StoreDrop::kIndexFull;
  if (ExceedsShare(chunk)) return StoreDrop::kTenantShare;
  if (!budget_.Take(layout_.record_bytes, now)) return StoreDrop::kWriteBudget;
  return std::nullopt;
}

StoreRoom DiskTier::RoomFor(const BlockHash& key) const {
  if (state_ != TierState::kOn || index_->size() >= index_->capacity()) return StoreRoom::kNever;
  const IndexedChunk* const indexed = index_->Find(key);
  const bool is_pending = indexed != nullptr && indexed->at.segment == kNoSegment;
  if (is_pending || FindStored(key) != nullptr) return StoreRoom::kNever;
  if (options_.store == StorePolicy::kReused && !filter_.SeenTwice(key.prefix())) {
    return StoreRoom::kNever;
  }
  const bool has_budget = budget_.HasRoom(layout_.record_bytes, options_.clock->Now());
  return HasSlotForStore() && has_budget ? StoreRoom::kNow : StoreRoom::kLater;
}

std::optional<StoreTicket> DiskTier::BeginStore(const ChunkIdentity& chunk,
                                                const Retention& retention) {
  INCIPIT_CHECK(chunk.tokens.size() == layout_.num_tokens);
  has_new_stats_ = true;
  if (state_ != TierState::kOn) {
    Drop(StoreDrop::kOff);
    return std::nullopt;
  }
  if (Touch(chunk.key, retention)) return std::nullopt;
  EraseOneExpired();
  if (const auto reason = ReasonToDrop(chunk, retention, options_.clock->Now())) {
    Drop(*reason);
    return std::nullopt;
  }
  // The new record replaces a record that has expired or expires too early. The older record must
  // be erased, because a later Remove of the chunk erases only the record that the index has.
  int32_t priority = ClampPriority(retention.priority);
  if (const IndexedChunk* const older = index_->Find(chunk.key)) {
    priority = std::max<int32_t>(priority, older->priority);
    DropChunk(chunk.key, older->at);
  }
  Slot& slot = Take(Use::kStore);
  ++num_stores_;
  slot.key = chunk.key;
  slot.at = {kNoSegment, IndexOf(slot)};
  const int64_t now_s = options_.unix_seconds();
  const int64_t seconds_to_live = SecondsToLive(retention);
  const int64_t expires_s = seconds_to_live == 0 ? 0 : now_s + seconds_to_live;
  index_->Insert({.key = chunk.key,
                  .parent = chunk.parent.prefix(),
                  .is_first = chunk.first_token == 0,
                  .priority = static_cast<uint8_t>(priority),
                  .expires_s = ClampExpiry(expires_s),
                  .at = slot.at},
                 chunk.tenant);
  EncodeRecord(layout_, options_.fingerprint, chunk,
               {.created_s = now_s, .expires_s = expires_s, .priority = priority},
               io_->record(IndexOf(slot)));
  return StoreTicket{TicketOf(slot)};
}

std::span<std::byte> DiskTier::bytes_of(StoreTicket ticket) {
  const Slot& slot = SlotOf(static_cast<uint64_t>(ticket), Use::kStore);
  return layout_.PayloadOf<std::byte>(io_->record(IndexOf(slot)));
}

void DiskTier::DropStore(Slot& slot, StoreDrop reason) {
  Drop(reason);
  if (index_ != nullptr) index_->Erase(slot.key, slot.at);
  --num_stores_;
  Free(slot);
}

void DiskTier::FinishStore(StoreTicket ticket) {
  has_new_stats_ = true;
  Slot& slot = SlotOf(static_cast<uint64_t>(ticket), Use::kStore);
  if (slot.generation != generation_) return DropStore(slot, StoreDrop::kRemoved);
  if (state_ != TierState::kOn || slot.epoch != epoch_) return DropStore(slot, StoreDrop::kOff);
  if (!index_->Has(slot.key, slot.at)) return DropStore(slot, StoreDrop::kRemoved);
  slot.use = Use::kWriting;
  slot.started = options_.clock->Now();
  slot.deadline = slot.started + options_.store_deadline;
  next_deadline_ = std::min(next_deadline_, slot.deadline);
  io_->queues().PushStore({.slot = IndexOf(slot),
                           .serial = slot.serial,
                           .epoch = slot.epoch,
                           .generation = slot.generation});
}

void DiskTier::CancelStore(StoreTicket ticket) {
  has_new_stats_ = true;
  Slot& slot = SlotOf(static_cast<uint64_t>(ticket), Use::kStore);
  if (index_ != nullptr) index_->Erase(slot.key, slot.at);
  --num_stores_;
  Free(slot);
}

TierStats DiskTier::stats() const {
  TierStats stats = stats_;
  stats.state = state_;
  stats.bytes_used = state_ == TierState::kOn ? io_->num_bytes() : 0;
  stats.chunks = state_ == TierState::kOn ? index_->size() : 0;
  stats.loads_pending = num_loads_;
  stats.stores_pending = num_stores_;
  stats.slots_free = free_.size();
  stats.staging_bytes_used = (slots_.size() - free_.size()) * layout_.record_bytes;
  return stats;
}

TierStats DiskTier::published_stats() const {
  MutexLock lock(published_mutex_);
  TierStats stats = published_;
  // The writer thread may change the files without a result for Poll.
  if (stats.state == TierState::kOn) stats.bytes_used = io_->num_bytes();
  return stats;
}

bool DiskTier::Flush(Duration limit) {
  // The end of a store wakes only the engine, which has stopped. So this function polls the tier.
  constexpr Duration kPause = std::chrono::milliseconds(2);
  const Time deadline = SteadyClock().Now() + limit;
  Mutex mutex;
  std::condition_variable_any never;
  MutexLock lock(mutex);
  for (Poll(); has_pending_stores(); Poll()) {
    const Time now = SteadyClock().Now();
    if (now >= deadline || state_ != TierState::kOn) return false;
    never.wait_until(mutex, std::min(deadline, now + kPause));
  }
  return true;
}

}  // namespace incipit
