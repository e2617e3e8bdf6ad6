// Preemption: frees blocks and slots before a step is planned.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "scheduler/scheduler.h"

namespace incipit {
namespace {

// If the head lacks more blocks than kDuplicatesMax, duplicates of its blocks are not counted,
// because the cache has few duplicates.
constexpr int32_t kDuplicatesMax = 64;

}  // namespace

// Preempts sequences if one of these goals needs preemptions:
// - The head (the first waiting sequence, which did not fit into the cache) can be admitted.
// - A tenant gets its share of the running sequences.
// - Each decoding sequence can store one more token.
// Returns false, and changes nothing, if a step in flight must be committed first.
bool Scheduler::MakeRoom(StepPlan& plan, Survey& survey) {
  int32_t num_passing = 0;
  const bool frees_passing = HeadFitsWithout(survey, num_passing);
  Sequence* displaced = frees_passing ? nullptr : FindDisplaced();
  if (num_in_flight_ > 0) {
    return !frees_passing && displaced == nullptr && !PassingTakesPromised(survey) &&
           survey.num_urgent_blocks <= cache_.num_free();
  }
  for (; frees_passing && num_passing > 0; --num_passing) {
    Sequence* last = LastPassing();
    if (last == nullptr) break;
    Preempt(*last, PreemptionReason::kHead, plan);
  }
  if (displaced != nullptr) Preempt(*displaced, PreemptionReason::kShare, plan);
  if (plan.num_preemptions > 0) survey = SurveyRunning();
  while (PassingTakesPromised(survey)) {
    Preempt(*LastPassing(), PreemptionReason::kHead, plan);
    survey = SurveyRunning();
  }
  while (survey.num_urgent_blocks > cache_.num_free()) {
    if (head_ != nullptr && !head_->table.blocks.empty()) {
      ReleaseHead();
      continue;
    }
    if (Sequence* victim = ChooseVictim(); victim != nullptr) {
      Preempt(*victim, PreemptionReason::kDecode, plan);
      lacks_blocks_ = true;
    } else {
      // Only the protected sequence and the earliest sequence, which waits for a part of its loads,
      // hold blocks. The earliest sequence must not be preempted. So the earliest sequence computes
      // instead of waiting, and becomes the protected sequence. The other sequence can then be
      // preempted.
      INCIPIT_CHECK(earliest_ != protected_);
      loading_.erase(std::ranges::find(loading_, earliest_));
      EndWait(*earliest_);
    }
    survey = SurveyRunning();
  }
  return true;
}

// Returns true if the head (the first waiting sequence) does not fit into the cache now, but would
// fit without the passing sequences. A passing sequence was admitted while an earlier sequence did
// not fit. Sets `num_passing` to the number of necessary preemptions. Keeps free blocks for the
// next tokens of decoding sequences. A block that several passing sequences share becomes free when
// all of them are preempted. After these preemptions, only the head may hold a block. If another
// block has the same key, the head can release its own block (HoldsDuplicate).
bool Scheduler::HeadFitsWithout(const Survey& survey, int32_t& num_passing) {
  if (head_ == nullptr) return false;
  int32_t num_needed = cache_.BlocksNeeded(head_->table, {}, head_->num_tokens()) +
                       survey.num_decode_blocks - NumAvailable();
  if (num_needed <= 0) return false;
  const auto num_leaving = [this](BlockId id) -> int32_t& {
    return num_leaving_[static_cast<size_t>(id)];
  };
  auto it = running_.rbegin();
  for (; it != running_.rend() && num_needed > 0; ++it) {
    const Sequence& sequence = **it;
    if (!HasPassedHead(sequence)) continue;
    for (const BlockId id : sequence.table.blocks) {
      num_needed -= ++num_leaving(id) == cache_.pool().num_users(id);
    }
    if (IsDecoding(sequence)) num_needed -= NumBlocksForOne(sequence);
    if (sequence.num_missing() > 1) {
      num_needed -= cache_.BlocksNeeded(sequence.table, {}, sequence.num_tokens());
    }
    ++num_passing;
  }
  if (num_needed > 0 && num_needed <= kDuplicatesMax) {
    for (const BlockId id : head_->table.blocks) {
      const bool is_last = num_leaving(id) + 1 == cache_.pool().num_users(id);
      num_needed -= is_last && HasUsedDuplicate(id);
    }
  }
  while (it != running_.rbegin()) {
    const Sequence& sequence = **--it;
    if (!HasPassedHead(sequence)) continue;
    for (const BlockId id : sequence.table.blocks) num_leaving(id) = 0;
  }
  return num_needed <= 0 && num_passing > 0;
}

// Returns true if the cache has another block with the key of block `id`, and the other block has a
// user that HeadFitsWithout does not consider to preempt.
bool Scheduler::HasUsedDuplicate(BlockId id) const {
  const BlockPool& pool = cache_.pool();
  if (!pool.is_published(id)) return false;
  for (BlockId other = pool.next_same(id); other != id; other = pool.next_same(other)) {
    if (pool.num_users(other) > num_leaving_[static_cast<size_t>(other)]) return true;
  }
  return false;
}

// Returns true if the head holds a block that no sequence uses, and the cache has another block
// with the same key, which a sequence uses. If the head releases its blocks, its next lookup finds
// the other block. So the head then needs one free block less.
bool Scheduler::HoldsDuplicate() const {
  const int32_t num_needed =
      cache_.BlocksNeeded(head_->table, {}, head_->num_tokens()) - NumAvailable();
  return num_needed <= kDuplicatesMax &&
         std::ranges::any_of(head_->table.blocks, [this](BlockId id) {
           return cache_.pool().num_users(id) == 1 && HasUsedDuplicate(id);
         });
}

// Returns true if a preemption of the running `sequence` helps the head (the first waiting
// sequence, which does not fit into the cache). Two conditions must hold: `sequence` was admitted
// while an earlier sequence did not fit, and would be admitted again only after the head.
bool Scheduler::HasPassedHead(const Sequence& sequence) const {
  return sequence.is_passing && !sequence.ended() && !ReturnsBefore(sequence, head_->standing);
}

// Returns the latest admitted sequence whose preemption helps the head (the first waiting sequence,
// which does not fit into the cache). Returns nullptr if there is no such sequence. REQUIRES:
// `head_` is not nullptr.
Sequence* Scheduler::LastPassing() const {
  const auto has_passed = [this](const Sequence* sequence) { return HasPassedHead(*sequence); };
  const auto last = std::ranges::find_if(running_.rbegin(), running_.rend(), has_passed);
  return last == running_.rend() ? nullptr : *last;
}

// Returns true if a passing sequence must be preempted, because too few blocks are free for the
// running sequences. A passing sequence was admitted before the head (the first waiting sequence,
// which does not fit into the cache). The running sequences need blocks for all their prompt tokens
// and for the next token of each decoding sequence.
bool Scheduler::PassingTakesPromised(const Survey& survey) const {
  return survey.num_decode_blocks + num_promised_ > cache_.num_free() && head_ != nullptr &&
         LastPassing() != nullptr;
}

// Returns true if `victim`, once preempted, would be admitted again before the request of `next`.
bool Scheduler::ReturnsBefore(const Sequence& victim, const Standing& next) const {
  const Standing& standing = victim.group->standing;
  if (options_.scheduling == SchedulingKind::kFcfs || standing.tenant == next.tenant) {
    return !policy_->GoesBefore(next, standing);
  }
  const int32_t num_refunded = std::max(0, victim.num_paid - victim.num_computed);
  const double refund = shares_.PriceOfPrompt(standing.tenant, num_refunded);
  return shares_.service(standing.tenant) - refund <= shares_.service(next.tenant);
}

// Returns the first sequence in the order of the policy that waits in the queue and whose tenant
// has at least the claim `least`. Returns nullptr if there is none.
Sequence* Scheduler::FirstWithClaim(SlotClaim least) const {
  Sequence* first = nullptr;
  for (const int32_t tenant : waiting_.tenants()) {
    Sequence& front = waiting_.of(tenant).front();
    if (policy_->ClaimOf(front.standing, num_running()) < least) continue;
    if (first == nullptr || policy_->GoesBefore(front.standing, first->standing)) first = &front;
  }
  return first;
}

// Returns the running sequence to preempt so that a tenant gets its share of the running sequences
// (MayDisplace). Returns nullptr if there is none. Prefers the tenant that is first in the order of
// the policy. If another tenant gets the slot, sets `slot_tenant_` to this tenant. If a tier has
// chunks of the next sequence of the tenant, starts their loads instead: the sequence needs a slot
// and blocks only when the loads have ended.
Sequence* Scheduler::FindDisplaced() {
  if (options_.scheduling == SchedulingKind::kFcfs || shares_.num_active() < 2) return nullptr;
  if (waiting_.empty() || running_.empty()) return nullptr;
  const bool has_slot = num_running() < options_.running_max;
  if (has_slot && !is_blocked_) return nullptr;
  const Sequence* first = FirstWithClaim(SlotClaim::kNone);
  // If the first sequence lacks blocks, no other sequence may take the blocks of a victim.
  Sequence* next = FirstWithClaim(is_blocked_ ? SlotClaim::kNone : SlotClaim::kPart);
  Sequence* victim = next == nullptr ? nullptr : FindVictimFor(*next);
  if (victim == nullptr && !is_blocked_) {
    // A later tenant may have a victim only if its claim is greater.
    const Sequence* failed = std::exchange(next, FirstWithClaim(SlotClaim::kWhole));
    if (next != nullptr && next != failed) victim = FindVictimFor(*next);
  }
  if (victim == nullptr) return nullptr;
  if (tier_ != nullptr && next->table.blocks.empty()) {
    RefreshMatch(*next);
    const int32_t num_found = std::max(next->match.num_tokens, LoadedEnd(*next));
    if (StartLoads(*next, num_found) != LoadStart::kNone) return nullptr;
  }
  if (next != first) slot_tenant_ = next->standing.tenant;
  return victim;
}

// Returns the running sequence to preempt so that the waiting sequence `next` can start
// (MayDisplace). Returns nullptr if there is none. Skips sequences that were preempted
// preemptions_max times, unless all are such sequences.
Sequence* Scheduler::FindVictimFor(const Sequence& next) const {
  const bool includes_spared = WereAllPreemptedOften();
  Sequence* victim = nullptr;
  for (Sequence* sequence : running_) {
    const bool may_continue = HasWork(*sequence) || sequence->needs_next_part();
    if (sequence == protected_ || sequence == earliest_ || !may_continue) continue;
    if (!includes_spared && WasPreemptedOften(*sequence)) continue;
    // Skip sequences that were admitted while an earlier sequence did not fit (is_passing).
    // HeadFitsWithout decides about preemptions of these sequences.
    if (is_blocked_ && sequence->is_passing) continue;
    if (!policy_->MayDisplace(next.standing, sequence->standing, num_running())) continue;
    // A preemption of `sequence` would not help, because `sequence` would start again before
    // `next`.
    if (ReturnsBefore(*sequence, next.standing)) continue;
    if (victim == nullptr || IsPreemptedBefore(*sequence, *victim)) victim = sequence;
  }
  return victim;
}

// Returns true if `sequence` was preempted at least preemptions_max times. Such a sequence is
// preempted only if WereAllPreemptedOften.
bool Scheduler::WasPreemptedOften(const Sequence& sequence) const {
  return sequence.num_preemptions >= options_.preemptions_max;
}

// Returns true if all running sequences WasPreemptedOften. Skips the protected sequence and the
// earliest admitted sequence, which are never preempted.
bool Scheduler::WereAllPreemptedOften() const {
  return std::ranges::all_of(running_, [this](const Sequence* sequence) {
    if (sequence == protected_ || sequence == earliest_) return true;
    return sequence->state != SequenceState::kRunning || WasPreemptedOften(*sequence);
  });
}

// Returns the running sequence that is preempted first (IsPreemptedBefore). Returns nullptr if only
// the protected sequence and the earliest admitted sequence run.
Sequence* Scheduler::ChooseVictim() const {
  Sequence* victim = nullptr;
  for (Sequence* sequence : running_) {
    if (sequence == protected_ || sequence == earliest_) continue;
    if (sequence->state != SequenceState::kRunning) continue;
    if (victim == nullptr || IsPreemptedBefore(*sequence, *victim)) victim = sequence;
  }
  return victim;
}

// Returns true if `a` is preempted before `b`. REQUIRES: `b` was admitted before `a`.
bool Scheduler::IsPreemptedBefore(const Sequence& a, const Sequence& b) const {
  const bool spares_a = WasPreemptedOften(a), spares_b = WasPreemptedOften(b);
  if (spares_a != spares_b) return spares_b;
  if (a.is_passing != b.is_passing) return a.is_passing;
  const std::partial_ordering order = policy_->ComparePreemption(a.standing, b.standing);
  if (order != 0) return order < 0;
  const int32_t lost_a = NumLost(a), lost_b = NumLost(b);
  if (lost_a != lost_b) return lost_a < lost_b;
  return true;  // the sequence that was admitted last is preempted first
}

// Returns the number of tokens that `sequence` must compute again after a preemption. Assumes that
// its published blocks, which lookups can find, are not evicted.
int32_t Scheduler::NumLost(const Sequence& sequence) const {
  const int32_t num_kept = sequence.table.num_confirmed * cache_.block_size();
  return std::max(0, sequence.num_computed - num_kept);
}

void Scheduler::Preempt(Sequence& victim, PreemptionReason reason, StepPlan& plan) {
  INCIPIT_CHECK(num_in_flight_ == 0 && victim.num_in_flight == 0);
  running_.erase(std::ranges::find(running_, &victim));
  StopRunning(victim);
  ReleaseLoads(victim);
  cache_.Free(victim.table);
  // A sequence that has computed nothing since its admission, but loaded a part of its prefix, is
  // admitted like a new one.
  victim.returning |= !std::exchange(victim.admission_pending, false);
  victim.loads.was_tried = false;
  victim.loads.wait_left = Duration::max();
  ++victim.num_preemptions;
  ++plan.num_preemptions;
  ++counts_.preemptions[static_cast<size_t>(reason)];
  Enqueue(victim);
}

// Returns the earliest admitted sequence that is not passing. A passing sequence was admitted while
// an earlier sequence did not fit. If all running sequences are passing, returns the earliest
// admitted sequence. Skips sequences without work. If `includes_paused` is false, also skips
// sequences that wait for the next part of their loads.
Sequence* Scheduler::FindEarliest(bool includes_paused) const {
  Sequence* first = nullptr;
  for (Sequence* sequence : running_) {
    const bool is_paused =
        sequence->state == SequenceState::kRunning && sequence->needs_next_part();
    if (is_paused ? !includes_paused : !HasWork(*sequence)) continue;
    if (!sequence->is_passing) return sequence;
    if (first == nullptr) first = sequence;
  }
  return first;
}

void Scheduler::SetHead(Sequence* sequence) {
  if (head_ == sequence) return;
  ReleaseHead();
  head_ = sequence;
}

// Makes the head (the first waiting sequence, which did not fit into the cache) a user of the
// blocks of its cached prefix, unless it already is. These blocks are then not evicted. Returns
// false if running prompts or the reserve for decoding may need these blocks.
bool Scheduler::HoldHead() {
  if (!head_->table.blocks.empty()) return true;
  RefreshMatch(*head_);
  if (head_->match.num_tokens == 0) return true;
  const ComputedBlocks computed =
      cache_.GetComputedBlocks(Matchable(*head_), head_->table, PartialMatch::kNo);
  return computed.num_idle <= NumAvailable() &&
         cache_.AllocateSlots(head_->table, computed, computed.num_tokens);
}

void Scheduler::ReleaseHead() {
  if (head_ != nullptr && !head_->table.blocks.empty()) cache_.Free(head_->table);
}

}  // namespace incipit
