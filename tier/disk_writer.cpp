#include "tier/disk_writer.h"

#include <algorithm>
#include <utility>

#include "base/status.h"

namespace incipit {

using Kind = Completion::Kind;

DiskWriter::DiskWriter(DiskIo& io)
    : io_(io),
      segments_(io.segments_),
      mover_slot_(io.options_.num_slots),
      slots_(io.options_.num_slots) {}

void DiskWriter::Run() {
  while (!io_.queues_.stopped()) RunOnce();
  while (auto job = io_.queues_.NextWriterJob(false, kNoDeadline)) {
    Execute(*std::move(job->control));
  }
  // If the disk has failed, removals may still be pending. Try them one last time.
  if (!is_open_ && (clears_at_open_ || !erased_.empty())) Open();
  segments_.Close();
  io_.file_system_->Unlock();
}

// Executes one job, or tries to turn the tier on.
void DiskWriter::RunOnce() {
  if (MayOpen() && SteadyClock().Now() >= next_attempt_) Open();
  if (is_open_) AskForRoom();
  if (held_store_ && (!is_open_ || segments_.CanAppend())) {
    Store(*std::exchange(held_store_, std::nullopt));
  } else if (auto job =
                 io_.queues_.NextWriterJob(!held_store_, MayOpen() ? next_attempt_ : kNoDeadline)) {
    if (job->control) {
      Execute(*std::move(job->control));
    } else {
      Store(job->store);
    }
  }
  io_.num_bytes_.store(segments_.num_bytes(), std::memory_order_relaxed);
}

void DiskWriter::Open() {
  const absl::StatusOr<bool> locked = io_.file_system_->Lock();
  if (!locked.ok()) return Fail(locked.status());
  if (!*locked) {
    next_attempt_ = SteadyClock().Now() + io_.options_.lock_retry;
    if (!std::exchange(is_locked_out_, true)) {
      io_.queues_.Complete({.kind = Kind::kLocked, .epoch = epoch_}, true);
    }
    return;
  }
  is_locked_out_ = false;
  const SegmentStoreOptions& limits = io_.options_.segments;
  // The index has one list for each segment, and one list for chunks that are not written yet. A
  // new segment may enter the index before a removed segment leaves the index.
  const auto num_segments = static_cast<uint32_t>(limits.size_bytes / limits.segment_bytes) + 4;
  auto index = std::make_unique<ChunkIndex>(io_.options_.index_capacity, num_segments);
  absl::Status status = segments_.Open(io_.options_.unix_seconds(), *index);
  if (status.ok() && clears_at_open_) {
    status = RemoveAll();
    index->Clear();
  }
  if (status.ok()) status = RemoveErased();
  if (!status.ok()) return Fail(std::move(status));
  index->RaiseNewest(segments_.newest_number());
  RestoreUses(*index);
  index->ComputeMedians(segments_.records_per_segment());
  clears_at_open_ = false;
  waits_for_reclaim_ = removes_other_ = false;
  is_open_ = true;
  opened_ = SteadyClock().Now();
  io_.num_bytes_.store(segments_.num_bytes(), std::memory_order_relaxed);
  io_.queues_.Complete(
      {.kind = Kind::kOn, .epoch = ++epoch_, .generation = generation_, .index = std::move(index)},
      true);
}

void DiskWriter::Fail(absl::Status status) {
  const Time now = SteadyClock().Now();
  // If the disk worked for longer than ten pauses, start again with the shortest pause.
  const bool worked = is_open_ && now - opened_ > 10 * pause_;
  pause_ = std::clamp(worked ? Duration::zero() : 2 * pause_, io_.options_.retry_pause_min,
                      io_.options_.retry_pause_max);
  next_attempt_ = now + pause_;
  is_open_ = false;
  is_locked_out_ = false;
  segments_.Close();
  io_.file_system_->Unlock();
  io_.queues_.Complete({.kind = Kind::kOff, .status = std::move(status), .epoch = epoch_}, true);
}

void DiskWriter::CompleteStore(Completion completion) {
  completion.kind = Kind::kStored;
  completion.epoch = epoch_;
  completion.generation = generation_;
  completion.ended = io_.options_.clock->Now();
  io_.queues_.Complete(std::move(completion), true);
}

void DiskWriter::Store(const StoreJob& job) {
  const bool is_cancelled = slots_[job.slot].cancelled == job.serial;
  if (!is_open_ || is_cancelled || job.epoch != epoch_ || job.generation != generation_) {
    return CompleteStore({.slot = job.slot, .is_dropped = true});
  }
  if (!segments_.CanAppend()) {
    held_store_ = job;
    return;
  }
  const std::span<std::byte> record = io_.staging_.slot(job.slot);
  const FiniteCheck is_finite = io_.options_.is_finite;
  const RecordLayout& layout = io_.options_.segments.record;
  if (is_finite != nullptr && !is_finite(layout.PayloadOf<const std::byte>(record))) {
    return CompleteStore({.slot = job.slot, .reason = RejectReason::kNotFinite});
  }
  SealRecord(record);
  const absl::StatusOr<ChunkLocation> at = segments_.Append(record);
  if (!at.ok()) {
    CompleteStore({.slot = job.slot, .status = at.status()});
    return Fail(at.status());
  }
  slots_[job.slot].written = job.serial;
  slots_[job.slot].at = *at;
  CompleteStore({.slot = job.slot, .at = *at});
  // The record is valid even if the table cannot be written. So the store has succeeded, and a
  // removal of the chunk erases the record.
  absl::Status status = segments_.SealIfFull();
  if (!status.ok()) Fail(std::move(status));
}

void DiskWriter::Execute(ControlJob job) {
  switch (job.kind) {
    case ControlJob::Kind::kErase:
      return Erase(job.erased);
    case ControlJob::Kind::kCancelStore:
      return CancelStore(job.slot, job.serial);
    case ControlJob::Kind::kReclaim:
      return Reclaim(job);
    case ControlJob::Kind::kClear:
      return Clear(job.generation);
    case ControlJob::Kind::kTurnOff:
      if (is_open_ && job.epoch == epoch_) Fail(std::move(job.status));
      return;
    case ControlJob::Kind::kTurnedOn:
      epoch_processed_ = job.epoch;
      return;
    case ControlJob::Kind::kKeepUses:
      if (is_open_ && job.epoch == epoch_) KeepUses(*job.index);
      return;
  }
}

void DiskWriter::Erase(std::span<const ChunkLocation> locations) {
  erased_.insert(erased_.end(), locations.begin(), locations.end());
  for (const MovedRecord& moved : moved_) {
    if (std::ranges::find(locations, moved.from) != locations.end()) erased_.push_back(moved.to);
    if (std::ranges::find(locations, moved.to) != locations.end()) erased_.push_back(moved.from);
  }
  if (!is_open_) return;
  absl::Status status = RemoveErased();
  if (!status.ok()) Fail(std::move(status));
}

void DiskWriter::CancelStore(uint32_t slot, uint64_t serial) {
  SlotStore& store = slots_[slot];
  if (store.written == serial) return Erase({&store.at, 1});
  store.cancelled = serial;
}

absl::Status DiskWriter::RemoveErased() {
  while (!erased_.empty()) {
    INCIPIT_RETURN_IF_ERROR(segments_.Erase(erased_.back()));
    erased_.pop_back();
  }
  return absl::OkStatus();
}

void DiskWriter::Reclaim(const ControlJob& job) {
  if (!is_open_ || job.epoch != epoch_) return;
  waits_for_reclaim_ = false;
  if (job.segment == kNoSegment) {
    removes_other_ = true;
    return;
  }
  moved_.clear();
  absl::Status status = MoveRecords(job.segment, job.moved);
  // MoveRecords does not move all records then. The next server reclaims the segment.
  if (status.ok() && io_.queues_.stopped()) return;
  if (status.ok()) status = segments_.RemoveSegment(job.segment);
  if (!status.ok()) return Fail(std::move(status));
  io_.queues_.Complete({.kind = Kind::kReclaimed, .at = {job.segment, 0}, .epoch = epoch_}, false);
}

absl::Status DiskWriter::MoveRecords(uint32_t segment, const std::vector<uint32_t>& indexes) {
  const std::span<std::byte> record = io_.staging_.slot(mover_slot_);
  for (const uint32_t index : indexes) {
    if (!segments_.CanAppend() || io_.queues_.stopped()) return absl::OkStatus();
    const ChunkLocation from = {segment, index};
    const absl::Status status = segments_.Read(from, io_.options_.unix_seconds(), record);
    if (absl::IsNotFound(status) || absl::IsOutOfRange(status)) continue;
    INCIPIT_RETURN_IF_ERROR(status);
    INCIPIT_ASSIGN_OR_RETURN(const ChunkLocation at, segments_.Append(record));
    moved_.push_back({from, at});
    io_.queues_.Complete({.kind = Kind::kMoved,
                          .key = HeaderOf(record).key,
                          .from = from,
                          .at = at,
                          .epoch = epoch_},
                         false);
    INCIPIT_RETURN_IF_ERROR(segments_.SealIfFull());
  }
  return absl::OkStatus();
}

void DiskWriter::Clear(uint64_t generation) {
  generation_ = generation;
  if (!is_open_) {
    clears_at_open_ = true;
    return;
  }
  absl::Status status = RemoveAll();
  if (status.ok()) return;
  clears_at_open_ = true;
  Fail(std::move(status));
}

absl::Status DiskWriter::RemoveAll() {
  INCIPIT_RETURN_IF_ERROR(segments_.RemoveAll());
  return io_.file_system_->Remove(UsesName(io_.options_.segments.fingerprint));
}

// Reads the uses that the last clean end of a server has written. A file that is missing, damaged
// or too large has no effect: each chunk then counts as used when its segment was written.
void DiskWriter::RestoreUses(ChunkIndex& index) {
  const Fingerprint& fingerprint = io_.options_.segments.fingerprint;
  const auto contents = io_.file_system_->ReadAll(UsesName(fingerprint), kUsesBytesMax);
  if (!contents.ok()) return;
  if (const auto uses = DecodeUses(fingerprint, *contents)) index.RestoreUses(*uses);
}

void DiskWriter::KeepUses(const ChunkIndex& index) {
  const Fingerprint& fingerprint = io_.options_.segments.fingerprint;
  const std::string name = UsesName(fingerprint);
  const std::vector<ChunkUses> uses = index.ListUses(kChunkUsesMax);
  // The uses only improve the choice of the chunks that are kept. So an error has no effect.
  static_cast<void>(uses.empty() ? io_.file_system_->Remove(name)
                                 : io_.file_system_->WriteAll(name, EncodeUses(fingerprint, uses)));
}

void DiskWriter::AskForRoom() {
  if (waits_for_reclaim_ || (!segments_.IsHalfFull() && !held_store_)) return;
  if (removes_other_) {
    if (!held_store_) return;
    removes_other_ = false;
    const absl::Status status = segments_.RemoveOldestOther();
    if (!status.ok()) return Fail(status);
    // The removed file may be smaller than a segment. Then more room is needed.
  }
  absl::StatusOr<std::optional<ReclaimableSegments>> segments = segments_.SegmentsToReclaim();
  if (!segments.ok()) return Fail(segments.status());
  if (!*segments) return;
  waits_for_reclaim_ = true;
  std::vector<uint32_t> moved;
  moved.reserve(segments_.records_per_segment());
  io_.queues_.Complete({.kind = Kind::kReclaimWanted,
                        .epoch = epoch_,
                        .reclaimable = **std::move(segments),
                        .moved = std::move(moved)},
                       true);
}

}  // namespace incipit
