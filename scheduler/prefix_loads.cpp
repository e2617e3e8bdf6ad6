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

// Starts loads of the chunks that follow the first `num_found` tokens of `sequence`, and moves
// `sequence` from the queue to loading_. Returns kNone if `sequence` must compute these tokens, for
// example because the tier does not have the chunks, or because loads are not faster than
// computing. Returns kLater if loads may start in a later plan, after loads of other sequences have
// ended.
Scheduler::LoadStart Scheduler::StartLoads(Sequence& sequence, int32_t num_found) {
  PrefixLoads& loads = sequence.loads;
  if (loads.was_tried || !cache_.options().prefix_cache) return LoadStart::kNone;
  const ChunkShape& shape = tier_->shape();
  const int32_t first_chunk = num_found / shape.num_tokens();
  const bool is_full = num_loading() >= options_.loads_max;
  const int32_t num_chunks = NumInTier(sequence, first_chunk, is_full ? 1 : kAllChunks);
  if (num_chunks == 0) return LoadStart::kNone;
  if (is_full) return LoadStart::kLater;
  Duration wait_max = options_.load_wait_max;
  if (step_times_.trained()) {
    const int64_t num_tokens = int64_t{first_chunk + num_chunks} * shape.num_tokens() - num_found;
    const Duration computing = step_times_.TimeFor(num_tokens, PositionsOf(num_found, num_tokens),
                                                   std::max(prompt_room_, 1), decode_shape_);
    // Start some loads that seem to be too slow. Otherwise, the tier would never measure that its
    // loads are fast, or are fast again.
    if (tier_->PredictLoad(num_chunks) >= computing && ++num_slow_loads_ % kSlowLoadsTried != 0) {
      return LoadStart::kNone;
    }
    if (wait_max == Duration{}) wait_max = computing / 2;
  } else if (wait_max == Duration{}) {
    wait_max = kLoadWait;
  }
  for (int32_t chunk = first_chunk; chunk < first_chunk + num_chunks; ++chunk) {
    const std::optional<LoadTicket> ticket =
        tier_->Load(IdentityOf(shape, sequence.table.root, sequence.table.tenant,
                               sequence.table.hashes, sequence.tokens(), chunk));
    if (!ticket) break;
    loads.tickets.push_back(*ticket);
  }
  if (loads.tickets.empty()) return loading_.empty() ? LoadStart::kNone : LoadStart::kLater;
  waiting_.Remove(sequence);
  if (&sequence == head_) SetHead(nullptr);
  loads.first_chunk = first_chunk;
  loads.is_waiting = loads.was_tried = true;
  loads.has_failed = false;
  loads.wait_until = now_ + wait_max;
  loading_.push_back(&sequence);
  sequence.group->wait.Enter(WaitReason::kLoad, now_);
  ++counts_.loads;
  return LoadStart::kStarted;
}

// Moves a sequence of loading_ back to the queue if all loads of the sequence have ended, or if the
// sequence has waited too long. Keeps the tickets of the leading chunks that are ready, and
// releases the other tickets.
void Scheduler::EndWaits(Time now) {
  tier_->Poll();
  for (size_t i = 0; i < loading_.size();) {
    Sequence& sequence = *loading_[i];
    PrefixLoads& loads = sequence.loads;
    const auto state_of = [this](LoadTicket ticket) { return tier_->state(ticket); };
    const bool is_pending =
        std::ranges::find(loads.tickets, LoadState::kPending, state_of) != loads.tickets.end();
    if (is_pending && now < loads.wait_until) {
      ++i;
      continue;
    }
    KeepReady(sequence);
    loads.is_waiting = false;
    loading_[i] = loading_.back();
    loading_.pop_back();
    sequence.group->wait.Enter(WaitReason::kShare, now);
    waiting_.Push(sequence);
    cache_.CountChanges(true);
    has_arrivals_ = true;
  }
}

// Releases the first load of `sequence` that is not ready, and all later loads.
void Scheduler::KeepReady(Sequence& sequence) {
  PrefixLoads& loads = sequence.loads;
  const auto state_of = [this](LoadTicket ticket) { return tier_->state(ticket); };
  const auto end = std::ranges::find_if(
      loads.tickets, [](LoadState state) { return state != LoadState::kReady; }, state_of);
  if (end == loads.tickets.end()) return;
  loads.has_failed = true;
  ++counts_.failed_loads;
  std::for_each(end, loads.tickets.end(), [this](LoadTicket ticket) { tier_->Release(ticket); });
  loads.tickets.erase(end, loads.tickets.end());
}

// Returns the number of leading tokens of `sequence` that are ready in staging, or 0. The loaded
// chunks are useful only if the cache has the tokens before the first loaded chunk.
int32_t Scheduler::LoadedEnd(const Sequence& sequence) const {
  const PrefixLoads& loads = sequence.loads;
  if (loads.tickets.empty()) return 0;
  const auto num_chunks = static_cast<int32_t>(loads.tickets.size());
  return (loads.first_chunk + num_chunks) * tier_->shape().num_tokens();
}

// Returns the number of leading tokens of `sequence` that a step need not compute: tokens of the
// cached prefix `computed`, and after them tokens of loaded chunks. If loaded chunks follow,
// removes the block copy from `computed`. Releases the loaded chunks if the cache has all of their
// blocks, or if the cache lacks a block before the first loaded chunk.
int32_t Scheduler::FoundEnd(Sequence& sequence, ComputedBlocks& computed) {
  KeepReady(sequence);
  const int32_t loaded_end = LoadedEnd(sequence);
  if (loaded_end == 0) return computed.num_tokens;
  const int32_t loaded_begin = sequence.loads.first_chunk * tier_->shape().num_tokens();
  const auto num_cached = static_cast<int32_t>(computed.blocks.size()) * cache_.block_size();
  if (num_cached < loaded_begin || num_cached >= loaded_end) {
    ReleaseLoads(sequence);
    return computed.num_tokens;
  }
  if (computed.copy_source != kNoBlock) {
    computed = cache_.GetComputedBlocks(Matchable(sequence), sequence.table, PartialMatch::kNo);
  }
  return loaded_end;
}

// Adds the writes of the loaded blocks of `sequence` to the plan. REQUIRES: the plan contains the
// first step of `sequence` since its admission.
void Scheduler::AddWrites(Sequence& sequence, StepPlan& plan) {
  const int32_t per_chunk = tier_->shape().blocks_per_chunk;
  const int32_t end = sequence.num_hit_tokens / cache_.block_size();
  for (int32_t block = end - sequence.num_loaded_tokens / cache_.block_size(); block < end;
       ++block) {
    const int32_t chunk = block / per_chunk - sequence.loads.first_chunk;
    plan.writes.push_back({.to = sequence.table.blocks[static_cast<size_t>(block)],
                           .ticket = sequence.loads.tickets[static_cast<size_t>(chunk)],
                           .index = block % per_chunk});
  }
}

// Ends the use of all loaded chunks of `sequence`. REQUIRES: no step in flight writes them.
void Scheduler::ReleaseLoads(Sequence& sequence) {
  PrefixLoads& loads = sequence.loads;
  for (const LoadTicket ticket : loads.tickets) tier_->Release(ticket);
  loads.tickets.clear();
  if (!std::exchange(loads.is_waiting, false)) return;
  loading_.erase(std::ranges::find(loading_, &sequence));
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

// Returns the number of leading tokens of the waiting `sequence` that are cached, that are loaded,
// or that the tier can load. Refreshes the match of `sequence`.
int32_t Scheduler::NumFoundAtMost(Sequence& sequence) {
  RefreshMatch(sequence);
  const int32_t num_found = std::max(sequence.match.num_tokens, LoadedEnd(sequence));
  if (tier_ == nullptr || sequence.loads.was_tried) return num_found;
  const int32_t chunk_tokens = tier_->shape().num_tokens();
  const int32_t first_chunk = num_found / chunk_tokens;
  const int32_t num_chunks = NumInTier(sequence, first_chunk, kAllChunks);
  return num_chunks == 0 ? num_found : (first_chunk + num_chunks) * chunk_tokens;
}

Time Scheduler::next_look() const {
  Time next = deadlines_.next();
  for (const Sequence* sequence : loading_) next = std::min(next, sequence->loads.wait_until);
  return next;
}

}  // namespace incipit
