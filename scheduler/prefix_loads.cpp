// The part of Scheduler that loads prefixes from a tier and plans the writes of loaded chunks into
// blocks. Also reports the computed chunks that a tier must store.
#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"
#include "scheduler/scheduler.h"

namespace incipit {
namespace {

constexpr int32_t kAllChunks = std::numeric_limits<int32_t>::max();

// One of kSlowLoadsTried loads is started although its prediction is longer than computing.
constexpr int64_t kSlowLoadsTried = 16;

}  // namespace

// Returns the number of consecutive chunks, from number `first_chunk`, that the tier has and that
// `sequence` may read, but at most `chunks_max`.
int32_t Scheduler::NumInTier(const Sequence& sequence, int32_t first_chunk,
                             int32_t chunks_max) const {
  const ChunkShape& shape = tier_->shape();
  const auto& keys = sequence.table.hashes;
  const auto num_findable = static_cast<int32_t>(Matchable(sequence).size()) - 1;
  const int32_t end = std::min(num_findable / shape.num_tokens(),
                               static_cast<int32_t>(keys.size()) / shape.blocks_per_chunk);
  int32_t chunk = first_chunk;
  while (chunk < end && chunk - first_chunk < chunks_max) {
    if (!tier_->Has(keys[shape.last_block(chunk)])) break;
    ++chunk;
  }
  return std::max(0, chunk - first_chunk);
}

// Returns the end of the consecutive chunks that the tier has after the first `num_found` tokens of
// `sequence`, as a number of leading tokens. Returns `num_found` if the tier lacks the next chunk.
int32_t Scheduler::EndInTier(const Sequence& sequence, int32_t num_found) const {
  const int32_t chunk_tokens = tier_->shape().num_tokens();
  const int32_t first_chunk = num_found / chunk_tokens;
  const int32_t num_chunks = NumInTier(sequence, first_chunk, kAllChunks);
  return num_chunks == 0 ? num_found : (first_chunk + num_chunks) * chunk_tokens;
}

// Returns the predicted time to compute the prompt tokens [num_found, end), or nullopt if too few
// steps are measured.
std::optional<Duration> Scheduler::PredictComputing(int32_t num_found, int32_t end) const {
  if (!step_times_.trained()) return std::nullopt;
  const int64_t num_tokens = end - num_found;
  return step_times_.TimeFor(num_tokens, PositionsOf(num_found, num_tokens),
                             std::max(prompt_room_, 1), decode_shape_);
}

// Returns the policy for loads of `sequence`. A request with a deadline must not wait for a load
// that takes longer than computing.
LoadPolicy Scheduler::LoadPolicyOf(const Sequence& sequence) const {
  return sequence.request().first_token_by() == kNoDeadline ? options_.load_policy
                                                            : LoadPolicy::kFaster;
}

// Returns true if a load of `num_chunks` chunks must not be started, because its predicted time is
// not below `computing`, the predicted time to compute the same tokens.
bool Scheduler::IsTooSlow(const Sequence& sequence, int32_t num_chunks,
                          std::optional<Duration> computing) const {
  return LoadPolicyOf(sequence) == LoadPolicy::kFaster && computing &&
         tier_->PredictLoad(num_chunks) >= *computing;
}

// Returns the maximum time that a sequence waits for loads of `num_chunks` chunks. `computing` is
// the predicted time to compute the same tokens.
Duration Scheduler::LoadWaitMax(const Sequence& sequence, int32_t num_chunks,
                                std::optional<Duration> computing) const {
  if (options_.load_wait_max != Duration{}) return options_.load_wait_max;
  if (LoadPolicyOf(sequence) == LoadPolicy::kAlways) {
    return std::max(kLoadWait, 2 * tier_->PredictLoad(num_chunks));
  }
  return computing ? *computing / 2 : kLoadWait;
}

// Returns the number of tokens after the first `num_found` tokens of `sequence` that the tier would
// load. Returns 0 if these loads would not be started (IsTooSlow).
int32_t Scheduler::NumLoadable(const Sequence& sequence, int32_t num_found) const {
  if (tier_ == nullptr || !cache_.options().prefix_cache) return 0;
  const int32_t end = EndInTier(sequence, num_found);
  if (end == num_found) return 0;
  const int32_t chunk_tokens = tier_->shape().num_tokens();
  const int32_t num_chunks = end / chunk_tokens - num_found / chunk_tokens;
  return IsTooSlow(sequence, num_chunks, PredictComputing(num_found, end)) ? 0 : end - num_found;
}

// Starts loads of the chunks that follow the first `num_found` tokens of `sequence`, and moves
// `sequence` from the queue to loading_. If staging has too few slots, starts only the loads of the
// first part. Returns kNone if `sequence` must compute these tokens, for example because the tier
// does not have the chunks, or because loads are not faster than computing. Returns kLater if loads
// may start in a later plan, after loads of other sequences have ended.
Scheduler::LoadStart Scheduler::StartLoads(Sequence& sequence, int32_t num_found) {
  PrefixLoads& loads = sequence.loads;
  if (loads.was_tried || loads.wait_left == Duration{} || !cache_.options().prefix_cache) {
    return LoadStart::kNone;
  }
  const ChunkShape& shape = tier_->shape();
  const int32_t first_chunk = num_found / shape.num_tokens();
  const bool is_full = num_loading() >= options_.loads_max;
  const int32_t num_chunks = NumInTier(sequence, first_chunk, is_full ? 1 : kAllChunks);
  if (num_chunks == 0) return LoadStart::kNone;
  if (is_full) return LoadStart::kLater;
  const std::optional<Duration> computing =
      PredictComputing(num_found, (first_chunk + num_chunks) * shape.num_tokens());
  // Start some loads that seem to be too slow. Otherwise, the tier would never measure that its
  // loads are fast, or are fast again.
  if (IsTooSlow(sequence, num_chunks, computing) && ++num_slow_loads_ % kSlowLoadsTried != 0) {
    return LoadStart::kNone;
  }
  const Duration wait_max = LoadWaitMax(sequence, num_chunks, computing);
  loads.first_chunk = first_chunk;
  loads.end_chunk = first_chunk + num_chunks;
  LoadPart(sequence);
  if (loads.tickets.empty()) {
    loads.end_chunk = 0;
    return loading_.empty() ? LoadStart::kNone : LoadStart::kLater;
  }
  waiting_.Remove(sequence);
  if (&sequence == head_) SetHead(nullptr);
  loads.is_waiting = loads.was_tried = true;
  loads.has_failed = false;
  loads.wait_until = now_ + std::min(wait_max, loads.wait_left);
  loading_.push_back(&sequence);
  sequence.group->wait.Enter(WaitReason::kLoad, now_);
  ++counts_.loads;
  return LoadStart::kStarted;
}

// Starts loads from chunk number `first_chunk` on, until staging is full.
void Scheduler::LoadPart(Sequence& sequence) {
  PrefixLoads& loads = sequence.loads;
  for (int32_t chunk = loads.first_chunk; chunk < loads.end_chunk; ++chunk) {
    const std::optional<LoadTicket> ticket =
        tier_->Load(IdentityOf(tier_->shape(), sequence.table.root, sequence.table.tenant,
                               sequence.table.hashes, sequence.tokens(), chunk));
    if (!ticket) return;
    loads.tickets.push_back(*ticket);
  }
}

// Ends the wait of each sequence of loading_ whose loads have ended, or that has waited too long.
void Scheduler::EndWaits(Time now) {
  tier_->Poll();
  for (size_t i = 0; i < loading_.size();) {
    Sequence& sequence = *loading_[i];
    if (!IsWaitOver(sequence, now)) {
      ++i;
      continue;
    }
    loading_[i] = loading_.back();
    loading_.pop_back();
    EndWait(sequence);
  }
}

// Ends the wait of `sequence` for loads, and keeps the leading chunks that are ready. A waiting
// sequence returns to the queue. A running sequence can continue. The caller must remove `sequence`
// from loading_.
void Scheduler::EndWait(Sequence& sequence) {
  PrefixLoads& loads = sequence.loads;
  KeepReady(sequence);
  loads.is_waiting = false;
  loads.wait_left = std::max(Duration{}, loads.wait_until - now_);
  if (std::exchange(loads.is_paused, false)) {
    --num_paused_;
    return;
  }
  sequence.group->wait.Enter(WaitReason::kShare, now_);
  waiting_.Push(sequence);
  cache_.CountChanges(true);
  has_arrivals_ = true;
}

// Returns true if no load of `sequence` is pending, or if `sequence` has waited too long. If the
// next part has no ticket yet, starts its loads.
bool Scheduler::IsWaitOver(Sequence& sequence, Time now) {
  PrefixLoads& loads = sequence.loads;
  if (loads.wait_until == kNoDeadline) loads.wait_until = now + loads.wait_left;
  if (now >= loads.wait_until) return true;
  if (loads.tickets.empty()) {
    LoadPart(sequence);
    const size_t last_block = tier_->shape().last_block(loads.first_chunk);
    return loads.tickets.empty() && !tier_->Has(sequence.table.hashes[last_block]);
  }
  const auto state_of = [this](LoadTicket ticket) { return tier_->state(ticket); };
  return std::ranges::find(loads.tickets, LoadState::kPending, state_of) == loads.tickets.end();
}

// Keeps the tickets of the leading chunks that are ready. If a load is not ready, or if the next
// part has no ticket, loads no later chunk.
void Scheduler::KeepReady(Sequence& sequence) {
  const PrefixLoads& loads = sequence.loads;
  const auto state_of = [this](LoadTicket ticket) { return tier_->state(ticket); };
  const auto end = std::ranges::find_if(
      loads.tickets, [](LoadState state) { return state != LoadState::kReady; }, state_of);
  const bool lacks_part = loads.tickets.empty() && loads.has_next_part();
  if (end == loads.tickets.end() && !lacks_part) return;
  KeepLoads(sequence, static_cast<size_t>(end - loads.tickets.begin()));
}

// Releases the tickets of `loads` except the first `num_kept`.
void Scheduler::ReleaseTickets(PrefixLoads& loads, size_t num_kept) {
  const auto end = loads.tickets.begin() + static_cast<ptrdiff_t>(num_kept);
  std::for_each(end, loads.tickets.end(), [this](LoadTicket ticket) { tier_->Release(ticket); });
  loads.tickets.erase(end, loads.tickets.end());
}

// Releases all loads of `sequence` except the first `num_kept`, and loads no later chunk. The
// sequence computes the tokens of these chunks.
void Scheduler::KeepLoads(Sequence& sequence, size_t num_kept) {
  PrefixLoads& loads = sequence.loads;
  loads.has_failed = true;
  ++counts_.failed_loads;
  ReleaseTickets(loads, num_kept);
  loads.end_chunk = loads.first_chunk + static_cast<int32_t>(num_kept);
  if (sequence.state != SequenceState::kRunning || sequence.group->admitted) return;
  sequence.miss = MissAfterLoads(sequence, LoadableEnd(sequence));
}

// Returns the number of leading tokens of `sequence` that are ready in staging, or 0. The loaded
// chunks are useful only if the cache has the tokens before the first loaded chunk.
int32_t Scheduler::LoadedEnd(const Sequence& sequence) const {
  const PrefixLoads& loads = sequence.loads;
  if (loads.tickets.empty()) return 0;
  const auto num_chunks = static_cast<int32_t>(loads.tickets.size());
  return (loads.first_chunk + num_chunks) * tier_->shape().num_tokens();
}

// Returns the number of leading tokens of `sequence` after all parts of its loads, or 0 if the
// sequence has no loads. Assumes that no load fails.
int32_t Scheduler::LoadableEnd(const Sequence& sequence) const {
  return tier_ == nullptr ? 0 : sequence.loads.end_chunk * tier_->shape().num_tokens();
}

// Returns the number of tokens that the running `sequence` must compute. Does not count tokens that
// are loaded. Assumes that no load fails.
int32_t Scheduler::NumToCompute(const Sequence& sequence) const {
  return sequence.length() - std::max(sequence.num_planned, LoadableEnd(sequence));
}

// Returns the number of tokens of the running `sequence` that the next part of its loads has in
// staging. If the blocks of these tokens do not fit, because the number exceeds `tokens_max`,
// releases the loads and returns 0.
int32_t Scheduler::LoadedOfNextPart(Sequence& sequence, int32_t tokens_max) {
  // A step in flight already writes the loaded chunks.
  if (sequence.loads.tickets.empty() || sequence.num_in_flight > 0) return 0;
  KeepReady(sequence);
  if (LoadedEnd(sequence) - sequence.num_planned > tokens_max) KeepLoads(sequence, 0);
  const int32_t num_loaded = std::max(0, LoadedEnd(sequence) - sequence.num_planned);
  if (num_loaded > 0 && !sequence.group->admitted) {
    sequence.miss = MissAfterLoads(sequence, LoadedEnd(sequence));
  }
  return num_loaded;
}

// Returns the number of leading tokens of `sequence` that a step need not compute: tokens of the
// cached prefix `computed`, and after them tokens of loaded chunks. If loaded chunks follow,
// removes the block copy from `computed`. Releases the loaded chunks if the cache has all of their
// blocks, or if the cache lacks a block before the first loaded chunk. In the first case, loads of
// later chunks may start.
int32_t Scheduler::FoundEnd(Sequence& sequence, ComputedBlocks& computed) {
  KeepReady(sequence);
  const int32_t loaded_end = LoadedEnd(sequence);
  if (loaded_end == 0) return computed.num_tokens;
  const int32_t loaded_begin = sequence.loads.first_chunk * tier_->shape().num_tokens();
  const auto num_cached = static_cast<int32_t>(computed.blocks.size()) * cache_.block_size();
  if (num_cached < loaded_begin || num_cached >= loaded_end) {
    // If another sequence has loaded the part, the chunks of the later parts are still useful.
    const bool lacks_parts = num_cached >= loaded_end && sequence.loads.has_next_part();
    ReleaseLoads(sequence);
    if (lacks_parts) sequence.loads.was_tried = false;
    return computed.num_tokens;
  }
  if (computed.copy_source != kNoBlock) {
    computed = cache_.GetComputedBlocks(Matchable(sequence), sequence.table, PartialMatch::kNo);
  }
  return loaded_end;
}

// Adds the writes of the loaded blocks of `item` to the plan.
void Scheduler::AddWrites(const StepPlan::Item& item, StepPlan& plan) {
  const Sequence& sequence = *item.sequence;
  const int32_t per_chunk = tier_->shape().blocks_per_chunk;
  const int32_t begin = (item.first_token - item.num_loaded) / cache_.block_size();
  const int32_t end = item.first_token / cache_.block_size();
  for (int32_t block = begin; block < end; ++block) {
    const int32_t chunk = block / per_chunk - sequence.loads.first_chunk;
    plan.writes.push_back({.to = sequence.table.blocks[static_cast<size_t>(block)],
                           .ticket = sequence.loads.tickets[static_cast<size_t>(chunk)],
                           .index = block % per_chunk});
  }
}

// Releases the loads that the step of `item` has written into blocks. If another part follows, the
// sequence waits for this part.
void Scheduler::CommitPart(const StepPlan::Item& item) {
  Sequence& sequence = *item.sequence;
  PrefixLoads& loads = sequence.loads;
  loads.first_chunk += static_cast<int32_t>(loads.tickets.size());
  ReleaseTickets(loads, 0);
  if (sequence.state != SequenceState::kRunning) return;
  // The admission has counted the first part.
  if (item.first_token > sequence.num_hit_tokens) {
    ChargeLoaded(sequence, item.first_token - item.num_loaded, item.num_loaded);
    sequence.num_hit_tokens += item.num_loaded;
    sequence.num_loaded_tokens += item.num_loaded;
  }
  if (!loads.has_next_part()) return;
  loads.is_waiting = loads.is_paused = true;
  loads.wait_until = kNoDeadline;
  loading_.push_back(&sequence);
  ++num_paused_;
  sequence.group->wait.Enter(WaitReason::kLoad, now_);
}

// Ends the use of all loads of `sequence`, and loads no later part. REQUIRES: no step in flight
// writes loaded chunks of `sequence`.
void Scheduler::ReleaseLoads(Sequence& sequence) {
  PrefixLoads& loads = sequence.loads;
  ReleaseTickets(loads, 0);
  loads.end_chunk = 0;
  num_paused_ -= std::exchange(loads.is_paused, false);
  if (!std::exchange(loads.is_waiting, false)) return;
  loading_.erase(std::ranges::find(loading_, &sequence));
  // The loads of a waiting sequence may now start (LoadStart::kLater).
  has_arrivals_ = true;
}

// Reports the chunks of `sequence` whose blocks are confirmed and that the tier does not have for
// as long as the retention hint of the request asks. Marks the other chunks as used.
void Scheduler::AddChunkEvents(Sequence& sequence) {
  const ChunkShape& shape = tier_->shape();
  const int32_t per_chunk = shape.blocks_per_chunk;
  const int32_t num_chunks = sequence.table.num_confirmed / per_chunk;
  while (sequence.num_chunks_seen < num_chunks) {
    if (std::ssize(events_.chunks) >= options_.chunk_events_max) return;
    const int32_t chunk = sequence.num_chunks_seen++;
    const auto begin = static_cast<size_t>(chunk * per_chunk);
    const auto count = static_cast<size_t>(per_chunk);
    const BlockHash& key = sequence.table.hashes[shape.last_block(chunk)];
    if (tier_->Touch(key, sequence.table.retention)) continue;
    const auto blocks = std::span(sequence.table.blocks).subspan(begin, count);
    // Skip the chunk if its last block was unpublished, because the blocks may have wrong contents.
    if (!cache_.pool().is_published(blocks.back())) continue;
    events_.chunks.push_back(
        {.sequence = &sequence, .chunk = chunk, .blocks_begin = events_.chunk_blocks.size()});
    events_.chunk_blocks.insert(events_.chunk_blocks.end(), blocks.begin(), blocks.end());
  }
}

// Removes all chunks of `sequence` from the tier, because their contents may be wrong: the first
// chunk, and all chunks that follow.
void Scheduler::RemoveFromTier(const Sequence& sequence) {
  const size_t last_block = tier_->shape().last_block(0);
  const auto& keys = sequence.table.hashes;
  if (last_block < keys.size()) tier_->Remove(keys[last_block]);
}

// Returns the number of leading tokens of the waiting `sequence` that are cached, or that its loads
// will provide. Refreshes the match of `sequence`.
int32_t Scheduler::NumFound(Sequence& sequence) {
  RefreshMatch(sequence);
  return std::max(sequence.match.num_tokens, LoadableEnd(sequence));
}

// Like NumFound, but also counts the tokens for which loads could be started.
int32_t Scheduler::NumFoundAtMost(Sequence& sequence) {
  const int32_t num_found = NumFound(sequence);
  const bool may_load = tier_ != nullptr && !sequence.loads.was_tried;
  return may_load ? EndInTier(sequence, num_found) : num_found;
}

Time Scheduler::next_look() const {
  Time next = deadlines_.next();
  for (const Sequence* sequence : loading_) next = std::min(next, sequence->loads.wait_until);
  return next;
}

}  // namespace incipit
