// Sequences that wait while a running sequence computes a prefix that they need.
#include <algorithm>
#include <limits>
#include <span>

#include "base/check.h"
#include "scheduler/scheduler.h"

namespace incipit {
namespace {

// Maximum number of waiting sequences of a running prompt by which each plan updates its rank.
constexpr int32_t kRankedWaitersMax = 64;

// Returns the number of equal block keys at the beginning of `a` and `b`. Each key depends on all
// earlier blocks, so the equal keys are a prefix, and a binary search finds its end.
size_t NumShared(std::span<const BlockHash> a, std::span<const BlockHash> b) {
  size_t shared = 0, end = std::min(a.size(), b.size());
  while (shared < end) {
    const size_t middle = shared + (end - shared) / 2;
    if (a[middle] == b[middle]) {
      shared = middle + 1;
    } else {
      end = middle;
    }
  }
  return shared;
}

bool IsOfOneTenant(const Sequence& a, const Sequence& b) {
  return a.group->standing.tenant == b.group->standing.tenant;
}

// Improves `rank`, the rank of a running sequence, by the rank of a sequence that waits for its
// blocks. The policy chooses the better tenant, with its priority. The smaller key and the earlier
// deadline are better.
void ImproveRank(const SchedulingPolicy& policy, const Standing& waiter, Standing& rank) {
  if (policy.ComparePrompts(waiter, rank) < 0) {
    rank.tenant = waiter.tenant;
    rank.priority = waiter.priority;
  }
  rank.key = std::min(rank.key, waiter.key);
  rank.first_token_by = std::min(rank.first_token_by, waiter.first_token_by);
}

// Sets the rank (`standing`) by which the scheduler orders `producer`: the rank of its request,
// improved by the ranks of all sequences that wait for a prefix that `producer` computes.
// Does not change the rank if more than `waiters_max` sequences wait.
void UpdateRank(const SchedulingPolicy& policy, Sequence& producer,
                int32_t waiters_max = std::numeric_limits<int32_t>::max()) {
  Standing rank = producer.group->standing;
  for (const Sequence* waiter = producer.first_waiter; waiter != nullptr;
       waiter = waiter->next_waiter) {
    if (waiters_max-- == 0) return;
    ImproveRank(policy, waiter->standing, rank);
  }
  producer.standing = rank;
}

}  // namespace

// Returns true if the block that contains token number `token` has the same key in `a` and `b`.
bool Scheduler::SharesBlockAt(const Sequence& a, const Sequence& b, int32_t token) const {
  const auto block = static_cast<size_t>(token / cache_.block_size());
  const auto& keys_a = a.table.hashes;
  const auto& keys_b = b.table.hashes;
  return block < std::min(keys_a.size(), keys_b.size()) && keys_a[block] == keys_b[block];
}

// Returns the number of tokens in the blocks that `a` and `b` have in common.
int32_t Scheduler::NumSharedTokens(const Sequence& a, const Sequence& b) const {
  return static_cast<int32_t>(NumShared(a.table.hashes, b.table.hashes)) * cache_.block_size();
}

// Searches for a producer: a running sequence that computes blocks of the prefix of `sequence`. The
// blocks of the first `num_found` tokens do not count, because they need no computation. Returns
// the producer that has the most blocks in common with `sequence`, and the number of common tokens.
// Returns no producer if `sequence` must not wait for a prefix.
Scheduler::SharedPrefix Scheduler::FindProducer(const Sequence& sequence, int32_t num_found) const {
  const SequenceGroup& group = *sequence.group;
  if (!cache_.options().prefix_cache || !group.request->read_cache || group.scores_prompt()) {
    return {};
  }
  const auto block_size = static_cast<size_t>(cache_.block_size());
  // number of full blocks among the tokens that a lookup can find
  const size_t num_findable = (Matchable(sequence).size() - 1) / block_size;
  const auto keys =
      std::span(sequence.table.hashes).first(std::min(num_findable, sequence.table.hashes.size()));
  size_t num_shared = static_cast<size_t>(num_found) / block_size;
  if (keys.size() <= num_shared) return {};
  Sequence* producer = nullptr;
  for (Sequence* other : prompts_) {
    const BlockTable& table = other->table;
    const auto num_published = static_cast<size_t>(table.num_published);
    if (other->state != SequenceState::kRunning) continue;
    if (table.hashes.empty() || table.hashes.front() != keys.front()) continue;
    const size_t num_known = static_cast<size_t>(other->num_tokens()) / block_size;
    const size_t shared =
        NumShared(keys, std::span(table.hashes).first(std::min(num_known, table.hashes.size())));
    if (shared <= std::max(num_shared, num_published)) continue;
    if (!CanPublish(*other)) continue;
    producer = other;
    num_shared = shared;
  }
  return {producer, static_cast<int32_t>(num_shared * block_size)};
}

// Returns false if lookups cannot find the next blocks that `sequence` computes. Lookups find a
// block only if they find the block before. Waiting for `sequence` is then useless.
bool Scheduler::CanPublish(const Sequence& sequence) const {
  const BlockTable& table = sequence.table;
  if (table.collided || sequence.group->failed) return false;
  if (table.num_published == 0) return true;
  return cache_.pool().is_published(table.blocks[static_cast<size_t>(table.num_published) - 1]);
}

// If a running sequence computes blocks of the prefix of `sequence` (FindProducer), moves
// `sequence` from the queue to the list of sequences that wait for this producer, and returns true.
// A sequence that does not fit into the cache (`may_fit` is false) does not wait for a sequence
// that has passed it: the head must stay the head.
bool Scheduler::WaitForPrefix(Sequence& sequence, int32_t num_found, bool may_fit) {
  const auto [producer, num_shared] = FindProducer(sequence, num_found);
  if (producer == nullptr || (producer->is_passing && !may_fit)) return false;
  waiting_.Remove(sequence);
  if (&sequence == head_) SetHead(nullptr);
  sequence.group->wait.Enter(WaitReason::kPrefix, now_);
  sequence.producer = producer;
  sequence.shared_tokens = num_shared;
  const bool is_only = producer->first_waiter == nullptr;
  sequence.next_waiter = producer->first_waiter;
  producer->first_waiter = &sequence;
  producer->wake_tokens =
      is_only ? sequence.shared_tokens : std::min(producer->wake_tokens, sequence.shared_tokens);
  ImproveRank(*policy_, sequence.standing, producer->standing);
  ++num_parked_;
  num_exhausted_ += sequence.num_overtaken >= kOvertakenMax;
  return true;
}

// Moves the sequences for which `producer` has computed the whole shared prefix back to the queue.
// If lookups cannot find the next blocks of `producer`, moves all sequences that wait for
// `producer` back to the queue.
void Scheduler::WakeReadyWaiters(Sequence& producer) {
  if (producer.first_waiter == nullptr) return;
  const int32_t num_tokens = producer.table.num_published * cache_.block_size();
  WakeWaiters(producer, CanPublish(producer) ? num_tokens : std::numeric_limits<int32_t>::max());
}

// Moves sequences that wait for `producer` back to the queue. Moves only sequences that need no
// more than the first `num_tokens` tokens of `producer`.
void Scheduler::WakeWaiters(Sequence& producer, int32_t num_tokens) {
  if (producer.first_waiter == nullptr || producer.wake_tokens > num_tokens) return;
  producer.wake_tokens = std::numeric_limits<int32_t>::max();
  Sequence** link = &producer.first_waiter;
  while (Sequence* waiter = *link) {
    if (waiter->shared_tokens > num_tokens) {
      producer.wake_tokens = std::min(producer.wake_tokens, waiter->shared_tokens);
      link = &waiter->next_waiter;
      continue;
    }
    *link = waiter->next_waiter;
    ForgetProducer(*waiter);
    waiter->group->wait.Enter(WaitReason::kShare, now_);
    waiting_.Push(*waiter);
    cache_.CountChanges(true);
    has_arrivals_ = true;
  }
  UpdateRank(*policy_, producer);
}

// Updates the rank of each running prompt that other sequences wait for. The services of the
// tenants may have changed since the previous plan, and with them the order of the tenants. Skips
// prompts with many waiting sequences, so that a plan takes O(number of running sequences) time.
void Scheduler::UpdateRanks() {
  if (num_parked_ == 0 || options_.scheduling == SchedulingKind::kFcfs) return;
  if (shares_.num_active() < 2) return;
  for (Sequence* prompt : prompts_) {
    if (prompt->first_waiter != nullptr) UpdateRank(*policy_, *prompt, kRankedWaitersMax);
  }
}

// Removes `sequence` from the waiting sequences. If the sequence waits for loads from a tier,
// `sequence` is in loading_, and the loads are cancelled. If `producer` is set, `sequence` waits
// for a prefix that the running sequence `producer` computes, and is in the list of `producer`.
// Otherwise, `sequence` is in the queue `waiting_`.
void Scheduler::StopWaiting(Sequence& sequence) {
  if (&sequence == head_) SetHead(nullptr);
  if (sequence.loads.is_waiting) return ReleaseLoads(sequence);
  if (sequence.producer == nullptr) return waiting_.Remove(sequence);
  Sequence& producer = *sequence.producer;
  Sequence** link = &producer.first_waiter;
  while (*link != &sequence) link = &(*link)->next_waiter;
  *link = sequence.next_waiter;
  UpdateRank(*policy_, producer);
  ForgetProducer(sequence);
}

// Records that `sequence` waits for no prefix any more. The caller must remove `sequence` from the
// list of its producer.
void Scheduler::ForgetProducer(Sequence& sequence) {
  sequence.next_waiter = nullptr;
  sequence.producer = nullptr;
  --num_parked_;
  num_exhausted_ -= sequence.num_overtaken >= kOvertakenMax;
}

// Increments `num_overtaken` of each sequence of the same tenant that is before `admitted` in the
// order of the queue and waits for a prefix. Skips sequences whose producer advances: these
// sequences wait for the computation of their own tokens, and not for the admission of `admitted`.
void Scheduler::CountOvertakenWaiters(const Sequence& admitted) {
  if (num_parked_ == 0) return;
  for (const Sequence* producer : running_) {
    if (!producer->is_stalled) continue;
    for (Sequence* waiter = producer->first_waiter; waiter != nullptr;
         waiter = waiter->next_waiter) {
      if (!IsOfOneTenant(*waiter, admitted) || !IsBefore(*waiter, admitted)) continue;
      ++counts_.overtakes;
      num_exhausted_ += ++waiter->num_overtaken == kOvertakenMax;
    }
  }
}

// Returns true if `sequence` must not be admitted, because a sequence that waits for a prefix was
// overtaken kOvertakenMax times and is before `sequence` in the queue of their tenant.
bool Scheduler::IsAfterExhaustedWaiter(const Sequence& sequence) const {
  if (num_exhausted_ == 0) return false;
  for (const Sequence* producer : running_) {
    for (const Sequence* waiter = producer->first_waiter; waiter != nullptr;
         waiter = waiter->next_waiter) {
      if (waiter->num_overtaken >= kOvertakenMax && IsOfOneTenant(*waiter, sequence) &&
          IsBefore(*waiter, sequence)) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace incipit
