#include "tests/kvcache/model_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace incipit {

using std::chrono::milliseconds;

KvCacheOptions ModelRun::RandomOptions(EvictionPolicyKind policy) {
  const HashAlgorithm algorithms[] = {HashAlgorithm::kSha256, HashAlgorithm::kXxh3,
                                      HashAlgorithm::kSha256Cbor, HashAlgorithm::kXxh3Cbor};
  const double shares[] = {0.25, 0.5, 1};
  KvCacheOptions options = {.num_blocks = Pick(2, 24),
                            .block_size = 1 << Pick(0, 3),
                            .hash = algorithms[Pick(0, 3)],
                            .prefix_cache = Chance(95),
                            .copy_on_write = Chance(75),
                            .policy = policy,
                            // duration_max is so long that no retention priority decays during the
                            // run. Other tests cover the decay.
                            .retention = {.tenant_share_max = shares[Pick(0, 2)],
                                          .duration_max = std::chrono::hours(100'000)}};
  seams_.copy_min_tokens = Chance(50) ? 1 : Pick(0, options.block_size);
  return options;
}

std::string ModelRun::Run(int32_t num_calls) {
  return RunWhile([&] { return num_calls-- > 0; });
}

std::string ModelRun::RunWhile(const std::function<bool()>& goes_on) {
  for (int32_t i = 0; goes_on() && error_.empty(); ++i) {
    Call();
    Compare();
    if (!error_.empty()) return fmt::format("call {}: {}", i, error_);
  }
  Commit();
  while (!sequences_.empty()) End(sequences_.front());
  Compare();
  CompareStats();
  Expect(cache_.num_used() == 0, "the cache has used blocks without sequences");
  return error_;
}

void ModelRun::Call() {
  const int32_t call = Pick(0, 199);
  LiveSequence* idle = PickSequence(false);
  if (call < 30 || sequences_.empty()) return Submit();
  if (call < 110 && idle != nullptr) {
    return idle->table.blocks.empty() ? Admit(*idle) : Continue(*idle);
  }
  if (call < 138) return Commit();
  if (call < 148) return Abort();
  if (call < 170 && idle != nullptr) return Leave(*idle);
  if (call < 177 && idle != nullptr) return Fork(*idle);
  if (call < 180) {
    const bool planned = idle == nullptr || (Chance(50) && !step_.empty());
    const LiveSequence& doomed = *PickSequence(planned);
    return Unpublish(doomed);
  }
  if (call < 182) {
    const int32_t num_cached_max = Pick(0, options_.num_blocks);
    cache_.EvictTo(num_cached_max);
    return naive_.EvictTo(num_cached_max);
  }
  if (call < 184) {
    const bool can = naive_.num_free() == options_.num_blocks;
    Expect(cache_.ResetPrefixCache() == can, "ResetPrefixCache returned the wrong result");
    num_resets += can;
    return can ? naive_.Reset() : void();
  }
  if (call < 186) {  // ends all sequences
    Commit();
    while (!sequences_.empty()) End(sequences_.front());
    return;
  }
  if (call < 188) return CompareStats();
  MoveTime();
}

LiveSequence* ModelRun::PickSequence(bool planned) {
  const auto fits = [&](const LiveSequence& sequence) { return sequence.planned == planned; };
  const auto count = std::ranges::count_if(sequences_, fits);
  if (count == 0) return nullptr;
  auto skipped = Pick(0, static_cast<int32_t>(count) - 1);
  for (LiveSequence& sequence : sequences_) {
    if (fits(sequence) && skipped-- == 0) return &sequence;
  }
  return nullptr;
}

std::vector<const BlockTable*> ModelRun::Tables() const {
  std::vector<const BlockTable*> tables;
  for (const LiveSequence& sequence : sequences_) tables.push_back(&sequence.table);
  return tables;
}

void ModelRun::Compare() {
  std::vector<const NaiveTable*> tables;
  for (const LiveSequence& sequence : sequences_) {
    tables.push_back(&sequence.naive);
    const auto equal = [](BlockId id, int32_t other) { return static_cast<int32_t>(id) == other; };
    Expect(std::ranges::equal(sequence.table.blocks, sequence.naive.blocks, equal),
           "the caches have different blocks for a sequence");
    Expect(sequence.table.num_published == sequence.naive.num_published,
           "num_published differs between the caches");
    Expect(sequence.table.num_committed == sequence.naive.num_committed,
           "num_committed differs between the caches");
    Expect(static_cast<int32_t>(sequence.table.copy.from) == sequence.naive.copy_source,
           "the source of the copy differs between the caches");
  }
  naive_.Compare(tables);
  if (error_.empty()) error_ = naive_.error();
  if (error_.empty()) cache_.CheckInvariants(Tables());
  if (listens_) CompareEvents();
}

void ModelRun::Listen() {
  cache_.Listen({.events_max = 100'000, .tokens_max = 1'000'000, .scope = KvEventScope::kAll});
}

// Compares the cached blocks with the blocks that a listener of cache events knows. Sometimes
// restarts the event log, after which the listener reads the cached blocks in small parts. In two
// rare cases, a restarted listener differs from a listener that listened from the start. The
// restarted listener does not know a pending block that replaces a computed block with the same
// key. The restarted listener knows a block that was computed before its parent, in another
// sequence.
void ModelRun::CompareEvents() {
  const bool restarts = listener_random_() % 50 == 0;
  if (restarts) Listen();
  listens_late_ |= restarts;
  if (!mirror_.is_complete()) cache_.ReportCached(listener_random_() % 4);
  Expect(mirror_.Apply(cache_.Events(), static_cast<size_t>(options_.block_size)),
         "an event contradicts the earlier events");
  cache_.ClearEvents();
  if (!mirror_.is_complete()) return;
  size_t num_known = 0;
  for (const auto& [prefix, id] : naive_.Emitted()) {
    const auto heard = mirror_.prefixes().find(cache_.pool().hash(BlockId{id}).bytes);
    if (heard == mirror_.prefixes().end()) {
      Expect(listens_late_ && cache_.pool().is_pending(BlockId{id}),
             "listeners do not know a stored prefix");
      continue;
    }
    ++num_known;
    Expect(heard->second == prefix.tokens, "listeners know wrong tokens for a key");
  }
  Expect(listens_late_ || num_known == mirror_.prefixes().size(),
         "listeners know keys that are not stored");
  for (const auto& [key, unused] : mirror_.prefixes()) {
    Expect(cache_.pool().Find({.bytes = key}) != kNoBlock,
           "listeners know a key that the cache does not find");
  }
}

void ModelRun::CompareStats() {
  stats_ += cache_.TakeStats();
  const auto& by_reason = stats_.evictions.by_reason;
  Expect(stats_.stored_blocks == naive_.num_stored, "stored_blocks differs between the caches");
  Expect(by_reason[0] + by_reason[1] == naive_.num_evicted,
         "the number of evictions differs between the caches");
  Expect(by_reason[2] == naive_.num_expired,
         "the number of expired blocks differs between the caches");
  Expect(by_reason[3] == naive_.num_reset, "the number of reset blocks differs between the caches");
  Expect(stats_.regret_blocks <= stats_.stored_blocks,
         "regret_blocks is greater than stored_blocks");
  Expect(stats_.collisions == 0, "two keys collided");
}

Retention ModelRun::RandomHint() {
  Retention hint;
  if (!has_hints_ || Chance(40)) return hint;
  if (Chance(70)) hint.priority = Pick(0, 100);
  if (Chance(30)) hint.time_to_live = milliseconds(Pick(1, 400));
  if (Chance(30)) hint.pin = milliseconds(Pick(1, 1000));
  return hint;
}

void ModelRun::Submit() {
  if (sequences_.size() >= 6) return;
  LiveSequence& sequence = sequences_.emplace_back();
  const auto capacity = static_cast<int32_t>(cache_.capacity_tokens());
  if (!texts_.empty() && Chance(80)) {
    sequence.tokens = texts_[static_cast<size_t>(Pick(0, static_cast<int32_t>(texts_.size()) - 1))];
    sequence.tokens.resize(static_cast<size_t>(Pick(0, sequence.num_tokens())));
  }
  const int32_t num_more = Pick(0, std::max(0, capacity - sequence.num_tokens()));
  for (int32_t i = 0; i < std::max(num_more, sequence.tokens.empty() ? 1 : 0); ++i) {
    sequence.tokens.push_back(Pick(0, alphabet_));
  }
  if (texts_.size() < 12) texts_.push_back(sequence.tokens);
  const int32_t space = Pick(0, 2);
  sequence.naive.space = space;
  sequence.table.tenant = sequence.naive.tenant = static_cast<uint64_t>(space == 2);
  sequence.table.retention = sequence.naive.hint = RandomHint();
  sequence.table.root =
      cache_.hasher().Root(MakeCacheNamespace(space == 2 ? "b" : "a", space == 1 ? "salt" : ""));
  if (!options_.prefix_cache) return;
  cache_.hasher().Extend(sequence.table.root, sequence.tokens, sequence.table.hashes);
}

void ModelRun::Admit(LiveSequence& sequence) {
  const bool partial = Chance(70);
  NaiveMatch match = naive_.LookUp(sequence.tokens, sequence.naive.space, partial);
  const ComputedBlocks computed = cache_.GetComputedBlocks(
      sequence.tokens, sequence.table, partial ? PartialMatch::kAllowed : PartialMatch::kNo);
  const auto equal = [](BlockId id, int32_t other) { return static_cast<int32_t>(id) == other; };
  Expect(std::ranges::equal(computed.blocks, match.blocks, equal),
         "the lookup found different blocks");
  CheckCopySource(sequence, computed, match);
  if (!error_.empty()) return;
  match.copy_tokens = computed.copy_tokens;
  Expect(computed.num_tokens == match.num_tokens(options_.block_size),
         "the lookup found a different number of tokens");
  CheckMiss(sequence, computed);

  const int32_t num_target = Pick(computed.num_tokens + 1, sequence.num_tokens());
  const auto source = static_cast<int32_t>(computed.copy_source);
  const int32_t num_needed = naive_.BlocksNeeded(sequence.naive, match, source, num_target);
  const AdmissionPreview preview = cache_.Preview(sequence.table, computed, num_target);
  const bool fits = num_needed <= naive_.num_free();
  Expect(preview.fits == fits && preview.blocks_needed == num_needed,
         "the preview of the admission is wrong");
  const size_t num_found = match.blocks.size();
  const int32_t num_fresh = (num_target + options_.block_size - 1) / options_.block_size -
                            static_cast<int32_t>(num_found);
  if (options_.policy != EvictionPolicyKind::kLru) {
    Expect(preview.blocks_evicted == naive_.BlocksEvicted(num_fresh),
           "the preview has a wrong number of evictions");
  }
  for (const BlockId id : computed.blocks) num_shared_pending += cache_.pool().is_pending(id);
  num_copies += source >= 0;
  Expect(cache_.AllocateSlots(sequence.table, computed, num_target) == fits,
         "AllocateSlots returned the wrong result");
  if (!fits) return;
  naive_.Allocate(sequence.naive, match, source,
                  std::span(sequence.table.blocks).subspan(num_found));
  if (source >= 0) {
    Expect(sequence.table.copy.to == sequence.table.blocks[num_found],
           "the copy does not go to the first new block");
    Expect(sequence.table.copy.to != sequence.table.copy.from, "a block is copied to itself");
    Expect(sequence.table.copy.num_tokens == computed.copy_tokens,
           "the copy has a wrong number of tokens");
  }
  sequence.num_computed = computed.num_tokens;
  Planned(sequence, num_target);
}

void ModelRun::CheckCopySource(const LiveSequence& sequence, const ComputedBlocks& computed,
                               const NaiveMatch& match) {
  Expect((computed.copy_source == kNoBlock) == (computed.copy_tokens == 0),
         "a copy has no source or no tokens");
  Expect(computed.copy_tokens <= match.copy_tokens, "the copy contains tokens that are not equal");
  if (match.copy_is_exact)
    Expect(computed.copy_tokens == match.copy_tokens, "the copy is not the longest possible copy");
  if (computed.copy_tokens < match.copy_tokens || computed.copy_tokens == 0) return;
  const auto source = static_cast<int32_t>(computed.copy_source);
  Expect(std::ranges::count(match.sources, source) == 1,
         "the source of the copy does not share the most tokens");
  Expect(std::ranges::count(sequence.naive.blocks, source) == 0,
         "the source of the copy is a block of the sequence");
}

void ModelRun::CheckMiss(const LiveSequence& sequence, const ComputedBlocks& computed) {
  const Miss miss = cache_.ExplainMiss(sequence.tokens, sequence.table, computed);
  const auto block_size = static_cast<size_t>(options_.block_size);
  const size_t index = computed.blocks.size();
  const size_t end = (index + 1) * block_size;
  const bool found_all = !options_.prefix_cache || end >= sequence.tokens.size();
  Expect((miss.reason == MissReason::kNone) == found_all,
         "the lookup wrongly reports a miss or no miss");
  if (found_all) return;
  Expect(miss.block == static_cast<int32_t>(index), "the miss names a wrong block");
  Expect(miss.differing_token >= static_cast<int32_t>(index * block_size) &&
             miss.differing_token < static_cast<int32_t>(end),
         "the differing token is not in the missed block");
  NaivePrefix prefix = {sequence.naive.space, sequence.tokens};
  prefix.tokens.resize(end);
  if (miss.reason == MissReason::kEvicted)
    Expect(naive_.WasEvicted(prefix), "a block that was never evicted is reported as evicted");
  if (!naive_.WasPublished(prefix))
    Expect(miss.reason != MissReason::kEvicted,
           "a block that was never published is reported as evicted");
  if (miss.reason != MissReason::kOtherNamespace) return;
  // The namespaces 0 and 1 belong to the same tenant.
  prefix.space = 1 - prefix.space;
  Expect(index == 0 && prefix.space >= 0 && naive_.IsCached(prefix),
         "no other namespace of the tenant has the missed block");
}

void ModelRun::Continue(LiveSequence& sequence) {
  if (sequence.num_computed == sequence.num_tokens()) {
    if (sequence.num_tokens() >= cache_.capacity_tokens()) return;
    sequence.tokens.push_back(Pick(0, alphabet_));
  }
  const int32_t num_target = Pick(sequence.num_computed + 1, sequence.num_tokens());
  const int32_t num_needed = naive_.BlocksNeeded(sequence.naive, {}, -1, num_target);
  const bool fits = num_needed <= naive_.num_free();
  const size_t num_held = sequence.table.blocks.size();
  Expect(cache_.AllocateSlots(sequence.table, {}, num_target) == fits,
         "AllocateSlots returned the wrong result");
  if (!fits) return;
  naive_.Allocate(sequence.naive, {}, -1, std::span(sequence.table.blocks).subspan(num_held));
  // The sequence may still have a pending copy from Fork.
  sequence.naive.copy_source = static_cast<int32_t>(sequence.table.copy.from);
  Planned(sequence, num_target);
}

void ModelRun::Planned(LiveSequence& sequence, int32_t num_target) {
  sequence.planned = true;
  sequence.num_target = num_target;
  step_.push_back(&sequence);
  if (Chance(10)) return;  // in 10 % of the cases, only CacheBlocks announces the blocks
  const auto tokens = std::span(sequence.tokens).first(static_cast<size_t>(num_target));
  cache_.Announce(sequence.table, tokens);
  naive_.Announce(sequence.naive, tokens);
}

// Commits the planned step. Each sequence fails with a probability of 5 %, as if its values were
// not finite.
void ModelRun::Commit() {
  std::vector<LiveSequence*> failed;
  for (LiveSequence* sequence : step_) {
    sequence->planned = false;
    cache_.ReleaseCopySource(sequence->table);
    naive_.ReleaseCopySource(sequence->naive);
    if (Chance(5)) {
      failed.push_back(sequence);
      continue;
    }
    sequence->num_computed = sequence->num_target;
    const auto tokens =
        std::span(sequence->tokens).first(static_cast<size_t>(sequence->num_target));
    cache_.CacheBlocks(sequence->table, sequence->tokens, sequence->num_target);
    naive_.CacheBlocks(sequence->naive, tokens);
  }
  step_.clear();
  for (const LiveSequence* sequence : failed) {
    Unpublish(*sequence);
  }
  for (LiveSequence* sequence : failed) End(*sequence);
}

void ModelRun::Abort() {
  num_aborts += !step_.empty();
  for (auto it = step_.rbegin(); it != step_.rend(); ++it) {
    LiveSequence& sequence = **it;
    sequence.planned = false;
    cache_.Rollback(sequence.table);
    naive_.Rollback(sequence.naive);
    if (sequence.table.blocks.empty()) sequence.num_computed = 0;
  }
  step_.clear();
}

void ModelRun::Unpublish(const LiveSequence& sequence) {
  cache_.Unpublish(sequence.table, sequence.num_tokens());
  // Blocks that were never announced have no keys yet.
  const size_t num_keyed = sequence.table.hashes.size() * static_cast<size_t>(options_.block_size);
  const size_t num_tokens = std::min(num_keyed, sequence.tokens.size());
  naive_.Unpublish(sequence.naive, std::span(sequence.tokens).first(num_tokens));
}

// Preempts the sequence or ends it.
void ModelRun::Leave(LiveSequence& sequence) {
  if (!Chance(30) || sequences_.size() > 4) return End(sequence);
  Free(sequence);
}

void ModelRun::End(LiveSequence& sequence) {
  Free(sequence);
  sequences_.remove_if([&](const LiveSequence& other) { return &other == &sequence; });
}

void ModelRun::Free(LiveSequence& sequence) {
  cache_.Free(sequence.table);
  naive_.Free(sequence.naive);
  sequence.num_computed = 0;
}

void ModelRun::Fork(const LiveSequence& parent) {
  if (parent.num_computed == 0 || parent.table.copy.from != kNoBlock) return;
  ++num_forks;
  LiveSequence& child = sequences_.emplace_back();
  const int32_t num_tokens = Chance(70) ? parent.num_computed : Pick(1, parent.num_computed);
  child.tokens.assign(parent.tokens.begin(), parent.tokens.begin() + num_tokens);
  child.table.root = parent.table.root;
  child.table.tenant = parent.table.tenant;
  child.table.retention = parent.table.retention;
  child.naive.space = parent.naive.space;
  child.naive.tenant = parent.naive.tenant;
  child.naive.hint = parent.naive.hint;
  if (options_.prefix_cache) {
    cache_.hasher().Extend(child.table.root, child.tokens, child.table.hashes);
  }
  const bool copies = num_tokens % options_.block_size > 0;
  const bool fits = !copies || naive_.num_free() > 0;
  Expect(cache_.Fork(parent.table, child.table, num_tokens) == fits,
         "Fork returned the wrong result");
  if (!fits) return sequences_.pop_back();
  naive_.Fork(parent.naive, child.naive, num_tokens,
              std::span(child.table.blocks).last(copies ? 1 : 0));
  child.num_computed = num_tokens;
}

void ModelRun::MoveTime() {
  now_ += milliseconds(Chance(20) ? Pick(0, 1000) : Pick(0, 100));
  cache_.Advance(Time(now_));
  naive_.Advance(now_);
}

}  // namespace incipit
