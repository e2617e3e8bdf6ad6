// The part of DiskTier that processes the results of I/O threads, and removes chunks.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "tier/disk_tier.h"

namespace incipit {

bool DiskTier::Poll() {
  bool has_changed = false;
  io_->queues().TakeCompletions(completions_);
  has_new_stats_ |= !completions_.empty();
  for (Completion& completion : completions_) has_changed |= Apply(completion);
  completions_.clear();
  const Time now = options_.clock->Now();
  if (now >= next_deadline_) has_changed |= CheckDeadlines(now);
  Publish();
  return has_changed;
}

// Reports the state and the counters to the server. Most calls of Poll change no counter, so they
// need not copy the counters.
void DiskTier::Publish() {
  if (!std::exchange(has_new_stats_, false)) return;
  if (reported_state_ != state_) {
    reported_state_ = state_;
    if (options_.on_state) {
      options_.on_state(state_, state_ == TierState::kOff ? last_error_ : absl::OkStatus());
    }
  }
  const TierStats present = stats();
  MutexLock lock(published_mutex_);
  published_ = present;
}

bool DiskTier::Apply(Completion& completion) {
  switch (completion.kind) {
    case Completion::Kind::kLoaded:
      return ApplyLoaded(completion);
    case Completion::Kind::kStored:
      ApplyStored(completion);
      return false;
    case Completion::Kind::kMoved:
      ApplyMoved(completion);
      return false;
    case Completion::Kind::kReclaimWanted:
      ApplyReclaimWanted(completion);
      return false;
    case Completion::Kind::kReclaimed:
      if (completion.epoch == epoch_ && index_ != nullptr) {
        stats_.chunks_reclaimed += index_->EraseSegment(completion.at.segment);
      }
      return false;
    case Completion::Kind::kOn:
      return ApplyOn(completion);
    case Completion::Kind::kOff:
      if (completion.epoch < epoch_) return false;
      return TurnOff(completion.status);
    case Completion::Kind::kLocked:
      state_ = TierState::kLocked;
      return FailLoads();
  }
  return false;
}

bool DiskTier::ApplyLoaded(const Completion& completion) {
  Slot& slot = slots_[completion.slot];
  INCIPIT_CHECK(slot.use == Use::kLoad && slot.is_reading);
  slot.is_reading = false;
  slot.deadline = kNoDeadline;
  --num_loads_;
  last_load_end_ = std::max(last_load_end_, completion.ended);
  if (absl::IsNotFound(completion.status) && LoadMoved(slot)) return false;
  const bool is_read = completion.status.ok();
  const bool is_valid = is_read && completion.reason == RejectReason::kOk;
  if (is_valid) rate_.Add(slot.started, completion.ended);
  if (is_read) load_errors_in_a_row_ = 0;
  const bool is_error =
      !is_read && !absl::IsNotFound(completion.status) && !absl::IsCancelled(completion.status);
  // The record may have been erased after the call of Load: by Remove, by a newer record, or
  // because it has expired.
  const bool is_erased = is_read && (index_ == nullptr || !index_->Has(slot.key, slot.at));
  if (is_read && !is_valid && !is_erased) {
    ++stats_.rejected[static_cast<size_t>(completion.reason)];
  }
  if (is_error) ++stats_.load_errors;
  // If a file is missing, its segment was reclaimed after the call of Load.
  if (absl::IsNotFound(completion.status) || (is_erased && !is_valid)) ++stats_.misses;
  if (!is_valid && !absl::IsCancelled(completion.status)) DropChunk(slot.key, slot.at);
  bool has_changed = false;
  if (slot.num_tickets == 0) {
    ++stats_.loads_cancelled;
    Free(slot);
  } else if (slot.state == LoadState::kPending) {
    slot.state = is_valid ? LoadState::kReady : LoadState::kFailed;
    has_changed = true;
    if (is_valid) {
      ++stats_.hits;
      stats_.bytes_loaded += layout_.record_bytes;
      stats_.load_latency.Add(completion.ended - slot.started);
    }
  }
  if (is_error && ++load_errors_in_a_row_ >= kLoadErrorsMax && state_ == TierState::kOn) {
    const absl::Status status = Annotate(
        completion.status, fmt::format("{} loads in a row have failed", load_errors_in_a_row_));
    io_->queues().PushControl(
        {.kind = ControlJob::Kind::kTurnOff, .epoch = epoch_, .status = status});
    has_changed |= TurnOff(status);
  }
  return has_changed;
}

// Starts the load again if the chunk has moved to another segment since Load.
bool DiskTier::LoadMoved(Slot& slot) {
  if (slot.state != LoadState::kPending || slot.num_tickets == 0) return false;
  const IndexedChunk* const chunk = FindStored(slot.key);
  if (chunk == nullptr || chunk->at == slot.at) return false;
  slot.at = chunk->at;
  slot.deadline = slot.started + options_.load_deadline;
  next_deadline_ = std::min(next_deadline_, slot.deadline);
  StartRead(slot);
  return true;
}

void DiskTier::ApplyStored(const Completion& completion) {
  Slot& slot = slots_[completion.slot];
  INCIPIT_CHECK(slot.use == Use::kWriting);
  last_store_end_ = std::max(last_store_end_, completion.ended);
  if (!completion.status.ok()) return DropStore(slot, StoreDrop::kError);
  if (completion.reason != RejectReason::kOk) return DropStore(slot, StoreDrop::kNotFinite);
  // Remove or Clear has removed the chunk. The writer thread drops or erases its record.
  if (slot.generation != generation_ || !index_->Has(slot.key, slot.at)) {
    return DropStore(slot, slot.epoch == epoch_ ? StoreDrop::kRemoved : StoreDrop::kOff);
  }
  if (completion.is_dropped) return DropStore(slot, StoreDrop::kOff);
  index_->Move(slot.key, slot.at, completion.at);
  ++stats_.chunks_stored;
  stats_.bytes_stored += layout_.record_bytes;
  --num_stores_;
  Free(slot);
}

void DiskTier::ApplyMoved(const Completion& completion) {
  if (completion.epoch != epoch_ || index_ == nullptr) return;
  // If the chunk is not in the index any more, the writer thread erases the moved record.
  if (!index_->Move(completion.key, completion.from, completion.at)) return;
  ++stats_.chunks_moved;
  // A priority above the default keeps a chunk that is not used for one move only. Otherwise, such
  // chunks would fill the disk.
  index_->EndHighPriority(completion.key);
}

// Chooses the segment that the writer thread removes, and the chunks that it moves before.
void DiskTier::ApplyReclaimWanted(Completion& completion) {
  if (completion.epoch != epoch_ || state_ != TierState::kOn) return;
  const ReclaimableSegments& segments = completion.reclaimable;
  std::vector<uint32_t>& moved = completion.moved;
  const size_t num_records = moved.capacity();
  const SegmentUse least = index_->FindLeastUsed(segments.own, num_records, moved);
  // The chunks of other fingerprints count as used when they were written.
  if (segments.oldest_other != kNoSegment && segments.oldest_other < least.median) {
    io_->queues().PushControl({.kind = ControlJob::Kind::kReclaim, .epoch = epoch_});
    return;
  }
  // At most half of a segment is moved, so that the newest segment keeps room for new chunks.
  index_->ListKept(least, num_records / 2, options_.unix_seconds(), moved);
  size_t count = 0;
  const Time now = options_.clock->Now();
  while (count < moved.size() && budget_.Take(layout_.record_bytes, now)) ++count;
  moved.resize(count);
  io_->queues().PushControl({.kind = ControlJob::Kind::kReclaim,
                             .segment = least.segment,
                             .moved = std::move(moved),
                             .epoch = epoch_});
}

bool DiskTier::ApplyOn(Completion& completion) {
  const bool has_changed = FailLoads();
  index_.swap(completion.index);
  state_ = TierState::kOn;
  epoch_ = completion.epoch;
  load_errors_in_a_row_ = 0;
  // The writer thread may have built the index before calls of Clear and Remove. So apply these
  // calls to the index now.
  if (completion.generation != generation_) index_->Clear();
  if (removed_keys_.size() >= kRemovedKeysMax) {
    Clear();
  } else {
    for (const BlockHash& key : removed_keys_) RemoveTree(key);
  }
  removed_keys_.clear();
  // The writer thread executes this job after it has erased the chunks that were removed above, and
  // does not build another index before.
  io_->queues().PushControl(
      {.kind = ControlJob::Kind::kTurnedOn, .epoch = epoch_, .index = std::move(completion.index)});
  return has_changed;
}

bool DiskTier::TurnOff(const absl::Status& status) {
  last_error_ = status;
  if (state_ == TierState::kOff) return false;
  state_ = TierState::kOff;
  ++stats_.times_turned_off;
  return FailLoads();
}

bool DiskTier::FailLoads() {
  bool has_changed = false;
  for (Slot& slot : slots_) {
    if (slot.use != Use::kLoad || slot.state != LoadState::kPending) continue;
    slot.state = LoadState::kFailed;
    slot.deadline = kNoDeadline;
    has_changed |= slot.num_tickets > 0;
  }
  return has_changed;
}

bool DiskTier::CheckDeadlines(Time now) {
  bool has_changed = false;
  has_new_stats_ = true;
  absl::Status status;
  next_deadline_ = kNoDeadline;
  for (Slot& slot : slots_) {
    if (slot.deadline <= now) {
      const bool is_load = slot.use == Use::kLoad;
      const Duration limit = is_load ? options_.load_deadline : options_.store_deadline;
      if (now - std::max(slot.started, is_load ? last_load_end_ : last_store_end_) >= limit) {
        status = DeadlineExceeded("the disk of {} has not ended any {} for {} s",
                                  options_.directory, is_load ? "load" : "store", ToSeconds(limit));
      }
      // A store waits until all earlier stores are written. So if other stores have ended, the
      // deadline of this store starts again.
      slot.deadline = is_load || !status.ok() ? kNoDeadline : now + limit;
      if (is_load) has_changed |= FailLate(slot);
    }
    next_deadline_ = std::min(next_deadline_, slot.deadline);
  }
  if (status.ok() || state_ != TierState::kOn) return has_changed;
  io_->queues().PushControl(
      {.kind = ControlJob::Kind::kTurnOff, .epoch = epoch_, .status = status});
  return TurnOff(status) || has_changed;
}

// Fails a load that has exceeded its deadline.
bool DiskTier::FailLate(Slot& slot) {
  ++stats_.loads_late;
  if (slot.state != LoadState::kPending) return false;
  slot.state = LoadState::kFailed;
  return slot.num_tickets > 0;
}

// Removes a chunk that could not be loaded.
void DiskTier::DropChunk(const BlockHash& key, ChunkLocation at) {
  if (index_ == nullptr || !index_->Erase(key, at)) return;
  io_->queues().PushControl({.kind = ControlJob::Kind::kErase, .erased = {at}});
}

// Removes chunks from the index and from the disk.
void DiskTier::RemoveTree(const BlockHash& key) {
  ControlJob erase = {.kind = ControlJob::Kind::kErase};
  index_->RemoveTree(key, [&](const IndexedChunk& chunk) {
    ++stats_.chunks_removed;
    if (chunk.at.segment != kNoSegment) {
      erase.erased.push_back(chunk.at);
    } else if (const Slot& slot = slots_[chunk.at.index]; slot.use == Use::kWriting) {
      io_->queues().PushControl(
          {.kind = ControlJob::Kind::kCancelStore, .slot = chunk.at.index, .serial = slot.serial});
    }
  });
  if (!erase.erased.empty()) io_->queues().PushControl(std::move(erase));
}

void DiskTier::Remove(const BlockHash& key) {
  has_new_stats_ = true;
  if (removed_keys_.size() < kRemovedKeysMax) removed_keys_.push_back(key);
  if (index_ != nullptr) RemoveTree(key);
  // If the chunk of a load is not in the index any more, the chunk may follow `key`, so the load
  // fails too.
  for (Slot& slot : slots_) {
    if (slot.use != Use::kLoad) continue;
    if (slot.key == key || index_ == nullptr || index_->Find(slot.key) == nullptr) {
      slot.state = LoadState::kFailed;
    }
  }
}

void DiskTier::Clear() {
  has_new_stats_ = true;
  ++generation_;
  removed_keys_.clear();
  if (index_ != nullptr) index_->Clear();
  for (Slot& slot : slots_) {
    if (slot.use == Use::kLoad) slot.state = LoadState::kFailed;
  }
  io_->queues().PushControl({.kind = ControlJob::Kind::kClear, .generation = generation_});
}

}  // namespace incipit
