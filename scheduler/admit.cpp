// Admission: which waiting sequences get blocks and start to compute.
#include <algorithm>
#include <limits>

#include "base/check.h"
#include "scheduler/scheduler.h"

namespace incipit {
namespace {

// 1 / kReservedParts of all cache blocks (1 %) must stay free after an admission. Decoding
// sequences may take these blocks in the next steps.
constexpr int32_t kReservedParts = 100;
// A running prompt yields (Yields) to sequences that have at most 1 / kYieldParts of the tokens
// that the prompt has left to compute.
constexpr int32_t kYieldParts = 4;

}  // namespace

// Admits waiting sequences in the order of the policy, until the admitted sequences compute `room`
// tokens together in this step. Skips sequences with more than `missing_max` tokens to compute.
// Returns the number of tokens that the admitted sequences compute in this step.
//
// The first sequence that does not fit into the cache is stored in `head_`. If `may_pass` is true,
// later sequences may still be admitted (passing sequences), but may later be preempted so that
// `head_` fits.
int32_t Scheduler::Admit(Time now, StepPlan& plan, int32_t room, int32_t missing_max,
                         bool may_pass) {
  const bool is_head_new = PrepareHead();
  // Return early if no waiting sequence can fit. This is true if the queue has no new sequence and
  // the number of free blocks has not increased since Admit has examined the whole queue.
  if (is_blocked_ && !has_arrivals_ && !is_head_new && NumAvailable() <= num_available_) return 0;
  is_blocked_ = head_ != nullptr && head_->tried_in_plan == plan_number_;
  // Hold the cached prefix of the head also if no sequence may pass now, because running prompts
  // take blocks before the next call.
  const auto can_pass = [&] { return options_.passing && HoldHead() && may_pass; };
  if (is_blocked_ && !can_pass()) return 0;
  int32_t num_tokens = 0;
  while (num_tokens < room && num_running() < options_.running_max) {
    const auto [first, next] = NextToAdmit(missing_max);
    if (next == nullptr || num_tries_ >= kPassingTriesMax || num_parks_ >= kParksMax) {
      const bool is_complete =
          num_parks_ < kParksMax && missing_max == std::numeric_limits<int32_t>::max();
      has_arrivals_ &= !is_complete;
      if (is_complete) num_available_ = NumAvailable();
      break;
    }
    // True if `next` already holds the blocks of its cached prefix. `next` is then the head: the
    // first sequence that did not fit into the cache.
    const bool is_held = !next->table.blocks.empty();
    const bool may_fit = !is_held && MayFit(*next);
    ComputedBlocks computed = may_fit ? LookUp(*next) : ComputedBlocks{};
    int32_t num_found = 0;
    if (!is_held) num_found = may_fit ? FoundEnd(*next, computed) : next->match.num_tokens;
    if (!is_held && WaitForPrefix(*next, num_found, may_fit)) {
      ++num_parks_;
      continue;
    }
    if (!is_held && tier_ != nullptr) {
      const LoadStart start = StartLoads(*next, num_found);
      if (start == LoadStart::kLater) next->tried_in_plan = plan_number_;
      if (start != LoadStart::kNone) continue;
    }
    const int32_t num_missing = next->num_tokens() - std::max(num_found, LoadableEnd(*next));
    if (!is_held && IsTooLate(*next, num_missing, plan)) {
      EndGroup(*next->group, FinishReason::kTooLate);
      continue;
    }
    if (may_fit && Fits(*next, computed)) {
      next->is_passing = is_blocked_;
      num_tokens += StartSequence(now, *next, computed, num_found, room - num_tokens, plan);
      room = num_tokens + RoomAfter(plan, room - num_tokens, 0);
      continue;
    }
    next->tried_in_plan = plan_number_;
    next->group->wait.Enter(WaitReason::kRoom, now);
    if (is_blocked_) {
      ++num_tries_;
    } else if (next == first) {
      is_blocked_ = true;
      SetHead(next);
      if (waiting_.size() == 1 || !can_pass()) break;
    }
  }
  is_full_ = num_tokens >= room;
  Sweep();
  return num_tokens;
}

// Prepares a new attempt to admit the head (the first waiting sequence, which did not fit into the
// cache). If the head may fit now, releases the cached blocks that the head holds. Returns false if
// a new attempt to admit the head is useless.
bool Scheduler::PrepareHead() {
  if (head_ == nullptr) return true;
  if (Fits(*head_, {}) || IsOutOfDate(*head_) || HoldsDuplicate()) {
    ReleaseHead();
    return true;
  }
  // The head is the first waiting sequence, which did not fit into the cache. If the cached blocks
  // of the head were released, Admit must look them up again.
  return head_->table.blocks.empty() && head_->match.num_tokens > 0;
}

// Returns two waiting sequences of one tenant. `first` is the first sequence that may be admitted
// (IsCandidate), in the order of the policy. `next` is the sequence to admit now (BestCandidate).
// Both are nullptr if no sequence may be admitted.
//
// Sequences with more than `missing_max` tokens to compute are skipped only for sequences of the
// same tenant. Otherwise, short prompts of other tenants could start before a long prompt without
// limit. If the first sequence of any length and `yielding_` belong to the same tenant, sequences
// of this tenant may also have 1 / kYieldParts of the tokens of `yielding_`, unless the policy
// computes `yielding_` first.
//
// If a sequence was preempted for the share of a tenant (slot_tenant_), a sequence of this tenant
// is first, whatever its length.
Scheduler::Candidates Scheduler::NextToAdmit(int32_t missing_max) {
  constexpr int32_t kAnyLength = std::numeric_limits<int32_t>::max();
  if (slot_tenant_ >= 0) {
    Sequence* of_tenant = FirstCandidate(slot_tenant_, kAnyLength);
    if (of_tenant != nullptr) return {of_tenant, &BestCandidate(*of_tenant, kAnyLength)};
  }
  Sequence* first = nullptr;
  Sequence* first_of_any_length = nullptr;
  const auto take_earlier = [this](Sequence* candidate, Sequence*& earliest) {
    if (candidate == nullptr) return;
    if (earliest == nullptr || policy_->GoesBefore(candidate->standing, earliest->standing)) {
      earliest = candidate;
    }
  };
  for (const int32_t tenant : waiting_.tenants()) {
    take_earlier(FirstCandidate(tenant, missing_max), first);
    take_earlier(FirstCandidate(tenant, kAnyLength), first_of_any_length);
  }
  if (yielding_ != nullptr && first_of_any_length != nullptr &&
      first_of_any_length->standing.tenant == yielding_->group->standing.tenant) {
    const int32_t length_max = std::max(missing_max, yielding_->num_missing() / kYieldParts);
    Sequence* shorter = FirstCandidate(yielding_->group->standing.tenant, length_max);
    if (shorter != nullptr &&
        policy_->ComparePrompts(shorter->standing, yielding_->standing) <= 0) {
      return {shorter, &BestCandidate(*shorter, length_max)};
    }
  }
  if (first == nullptr) return {};
  if (first_of_any_length->standing.tenant != first->standing.tenant) {
    return {first_of_any_length, &BestCandidate(*first_of_any_length, kAnyLength)};
  }
  return {first, &BestCandidate(*first, missing_max)};
}

// Returns true if this plan may try to admit `sequence`. A plan tries each sequence at most once.
//
// The head is the first sequence that did not fit into the cache. For sequences after the head, and
// for all sequences if there is no head, two more conditions must hold:
// - At most `missing_max` tokens of `sequence` are left to compute. A sequence that must wait for a
//   prefix (FindProducer) may be longer, because it leaves the queue.
// - If an earlier sequence does not fit into the cache, `sequence` was preempted fewer than
//   preemptions_max times.
bool Scheduler::IsCandidate(Sequence& sequence, int32_t missing_max) {
  if (sequence.tried_in_plan == plan_number_) return false;
  if (head_ != nullptr && !policy_->GoesBefore(head_->standing, sequence.standing)) return true;
  if (is_blocked_ && WasPreemptedOften(sequence)) return false;
  if (sequence.num_tokens() <= missing_max) return true;
  const int32_t num_found = NumFound(sequence);
  if (sequence.num_tokens() - num_found <= missing_max) return true;
  return FindProducer(sequence, num_found).producer != nullptr;
}

// Returns the first sequence in the queue of the tenant that may be admitted (IsCandidate).
// Searches only the first reorder_window sequences. Returns nullptr if there is none, or if an
// earlier sequence of the tenant was already overtaken kOvertakenMax times.
Sequence* Scheduler::FirstCandidate(int32_t tenant, int32_t missing_max) {
  for (Sequence* sequence : waiting_.of(tenant).window()) {
    if (IsCandidate(*sequence, missing_max)) {
      return IsAfterExhaustedWaiter(*sequence) ? nullptr : sequence;
    }
    if (sequence->num_overtaken >= kOvertakenMax) return nullptr;
  }
  return nullptr;
}

// Returns the sequence to admit next: `first`, or a later sequence of the same tenant with at least
// the same priority. Compares only the first reorder_window sequences of the tenant. If sequences
// may miss the deadline of their first token (IsAtRisk), the earliest of these deadlines decides.
// Otherwise, the longest cached prefix decides.
Sequence& Scheduler::BestCandidate(Sequence& first, int32_t missing_max) {
  if (&first == head_) return first;
  Sequence* best = &first;
  const auto is_better = [](const Sequence& a, const Sequence& b) {
    if (a.is_at_risk != b.is_at_risk) return a.is_at_risk;
    if (a.is_at_risk) return a.standing.first_token_by < b.standing.first_token_by;
    return a.match.num_tokens > b.match.num_tokens;
  };
  bool is_after_first = false;
  for (Sequence* sequence : waiting_.of(first.standing.tenant).window()) {
    is_after_first |= sequence == &first;
    if (!is_after_first) continue;
    if (IsAfterExhaustedWaiter(*sequence)) break;
    if (sequence->standing.priority >= first.standing.priority &&
        IsCandidate(*sequence, missing_max)) {
      RefreshMatch(*sequence);
      const int32_t num_missing = sequence->num_tokens() - sequence->match.num_tokens;
      sequence->is_at_risk = IsAtRisk(*sequence, num_missing);
      if (is_better(*sequence, *best)) best = sequence;
    }
    if (sequence->num_overtaken >= kOvertakenMax) break;
  }
  return *best;
}

bool Scheduler::IsOutOfDate(const Sequence& sequence) const {
  const CachedMatch& match = sequence.match;
  const auto& keys = sequence.table.hashes;
  const auto num_found = static_cast<size_t>(match.num_tokens / cache_.block_size());
  if (!match.is_known) return true;
  if (num_found > 0 && cache_.num_changes(keys[num_found - 1]) != match.last_changes) return true;
  return num_found < keys.size() && cache_.num_changes(keys[num_found]) != match.next_changes;
}

void Scheduler::RefreshMatch(Sequence& sequence) {
  if (!IsOutOfDate(sequence)) return;
  const ComputedBlocks computed =
      cache_.GetComputedBlocks(Matchable(sequence), sequence.table, PartialMatch::kNo);
  const auto& keys = sequence.table.hashes;
  const size_t num_found = computed.blocks.size();
  CachedMatch& match = sequence.match;
  match = {.is_known = true, .num_tokens = computed.num_tokens};
  if (num_found > 0) match.last_changes = cache_.num_changes(keys[num_found - 1]);
  if (num_found < keys.size()) match.next_changes = cache_.num_changes(keys[num_found]);
}

// Returns false if too few blocks are free for the waiting `sequence`, according to its match. So a
// sequence that does not fit is not looked up in each plan. Returns true if the sequence has loaded
// chunks: only a lookup shows whether the tokens before these chunks are cached.
bool Scheduler::MayFit(Sequence& sequence) {
  if (!sequence.loads.tickets.empty()) return true;
  RefreshMatch(sequence);
  const int32_t num_blocks = cache_.BlocksNeeded(sequence.table, {}, sequence.num_tokens());
  const int32_t num_found = sequence.match.num_tokens / cache_.block_size();
  return num_blocks - num_found <= NumAvailable();
}

// Returns the number of free blocks that an admission may use. The blocks that running prompts will
// need and the blocks reserved for decoding do not count.
int32_t Scheduler::NumAvailable() const {
  const int32_t num_kept = running_.empty() ? 0 : cache_.num_blocks() / kReservedParts;
  return cache_.num_free() - num_promised_ - num_kept;
}

// Returns true if NumAvailable blocks suffice for all tokens of `sequence`, whose cached prefix is
// `computed`.
bool Scheduler::Fits(const Sequence& sequence, const ComputedBlocks& computed) const {
  return cache_.BlocksNeeded(sequence.table, computed, sequence.num_tokens()) <= NumAvailable();
}

// Admits `sequence`, whose cached prefix is `computed`. The tokens after this prefix, up to
// `num_found`, are loaded chunks. Returns the number of tokens that the sequence computes in this
// step, at most `room`. If the loads have another part, the sequence computes no token.
int32_t Scheduler::StartSequence(Time now, Sequence& sequence, const ComputedBlocks& computed,
                                 int32_t num_found, int32_t room, StepPlan& plan) {
  SequenceGroup& group = *sequence.group;
  if (!group.admitted) sequence.miss = ExplainMiss(sequence, computed, num_found);
  const int32_t num_missing = sequence.num_tokens() - num_found;
  const int32_t num_tokens = sequence.loads.has_next_part() ? 0 : std::min(num_missing, room);
  INCIPIT_CHECK(cache_.AllocateSlots(sequence.table, computed, num_found + num_tokens));
  num_promised_ += cache_.BlocksNeeded(sequence.table, {}, sequence.num_tokens());
  waiting_.Remove(sequence);
  CountWaiting(sequence, -1);
  if (&sequence == head_) head_ = nullptr;
  if (group.standing.tenant == slot_tenant_) slot_tenant_ = -1;
  CountOvertaken(sequence);
  sequence.num_computed = computed.num_tokens;
  sequence.num_planned = sequence.num_hit_tokens = num_found;
  sequence.num_loaded_tokens = num_found - computed.num_tokens;
  sequence.table.num_loaded = sequence.num_loaded_tokens / cache_.block_size();
  if (!sequence.returning) sequence.num_chunks_seen = 0;
  sequence.num_copied_tokens = computed.copy_tokens;
  sequence.num_computed_max = std::max(sequence.num_computed_max, sequence.num_computed);
  sequence.admission_pending = true;
  sequence.is_stalled = false;
  group.wait.Enter(WaitReason::kShare, now);
  ChargePrompt(sequence);
  InsertRunning(sequence);
  if (num_tokens < num_missing) prompts_.push_back(&sequence);
  AddItem(sequence, num_tokens, sequence.num_loaded_tokens, plan);
  return num_tokens;
}

// Returns the reason why only the first `num_found` tokens of `sequence` were found. The first of
// these tokens are the cached prefix `computed`, and the other tokens are loaded chunks.
Miss Scheduler::ExplainMiss(const Sequence& sequence, const ComputedBlocks& computed,
                            int32_t num_found) const {
  if (num_found == computed.num_tokens && !sequence.loads.has_failed) {
    return cache_.ExplainMiss(Matchable(sequence), sequence.table, computed);
  }
  return MissAfterLoads(sequence, num_found);
}

// Returns the reason why only the first `num_found` tokens of `sequence` were found, if a load
// provided the last of these tokens or failed.
Miss Scheduler::MissAfterLoads(const Sequence& sequence, int32_t num_found) const {
  const int32_t block = num_found / cache_.block_size();
  const int32_t end_of_block = (block + 1) * cache_.block_size();
  if (end_of_block >= static_cast<int32_t>(Matchable(sequence).size())) return {};
  const bool has_failed = sequence.loads.has_failed;
  return {.reason = has_failed ? MissReason::kLoadFailed : MissReason::kUnseen,
          .block = block,
          .differing_token = num_found};
}

// Increments `num_overtaken` of each waiting sequence of the same tenant that is before `admitted`
// in the queue, or would be before `admitted` if the sequence did not wait for a prefix
// (CountOvertakenWaiters). Does not count sequences that wait for loads, because the time of their
// wait is limited.
void Scheduler::CountOvertaken(const Sequence& admitted) {
  CountOvertakenWaiters(admitted);
  for (Sequence* sequence : waiting_.of(admitted.group->standing.tenant).window()) {
    if (!IsBefore(*sequence, admitted)) return;
    ++sequence->num_overtaken;
    ++counts_.overtakes;
  }
}

// Charges the tenant for the prompt tokens of `sequence` for which the tenant has not paid yet.
// Cached tokens and computed tokens have different prices. After a preemption, tokens that were
// already paid cost nothing.
void Scheduler::ChargePrompt(Sequence& sequence) {
  const int32_t tenant = sequence.group->standing.tenant;
  const int32_t num_prompt = sequence.request().num_prompt();
  const int32_t num_hit = std::min(sequence.num_hit_tokens, num_prompt);
  // After a failed step, the tenant may already have paid for num_paid cached tokens of this
  // sequence. If fewer tokens are cached now, ChargeCached gets a negative number and refunds the
  // difference.
  if (!sequence.returning || num_hit > sequence.num_paid) {
    shares_.ChargeCached(tenant, num_hit - sequence.num_paid);
    sequence.num_paid = num_hit;
  }
  sequence.num_prepaid = sequence.num_paid;
  shares_.ChargePrompt(tenant, num_prompt - sequence.num_paid);
  sequence.num_paid = num_prompt;
}

// Corrects the charge for tokens that were loaded after the admission of `sequence`. The admission
// has charged the tenant for the computation of the tokens from number `num_prepaid` on.
void Scheduler::ChargeLoaded(const Sequence& sequence, int32_t first_token, int32_t num_tokens) {
  const int32_t begin = std::max(first_token, sequence.num_prepaid);
  const int32_t end = std::min(first_token + num_tokens, sequence.request().num_prompt());
  if (begin >= end) return;
  const int32_t tenant = sequence.group->standing.tenant;
  shares_.ChargePrompt(tenant, begin - end);
  shares_.ChargeCached(tenant, end - begin);
}

// Subtracts from the tenant's service the price of the prompt tokens that `sequence` was charged
// for and has not computed. The tokens of steps in flight count as computed, because the device
// computes these steps to their end.
void Scheduler::RefundPrompt(Sequence& sequence) {
  const int32_t num_left = sequence.num_paid - sequence.num_planned;
  if (num_left <= 0) return;
  shares_.ChargePrompt(sequence.group->standing.tenant, -num_left);
  sequence.num_paid = sequence.num_planned;
}

void Scheduler::InsertRunning(Sequence& sequence) {
  sequence.state = SequenceState::kRunning;
  shares_.CountRunning(sequence.group->standing.tenant, 1);
  running_.push_back(&sequence);
}

AdmissionPreview Scheduler::Preview(const SequenceGroup& group) {
  const Sequence& prompt = group.sequences.front();
  const ComputedBlocks computed = LookUp(prompt);
  AdmissionPreview preview = cache_.Preview(prompt.table, computed, prompt.num_tokens());
  preview.loadable_tokens = NumLoadable(prompt, computed.num_tokens);
  return preview;
}

// Looks up the cached prefix of `sequence`. If only the first tokens of the last cached block
// match, the device must copy these tokens to a new block. If too few blocks are free for the copy
// (NumAvailable), the prefix ends before this block.
ComputedBlocks Scheduler::LookUp(const Sequence& sequence) {
  const SequenceGroup& group = *sequence.group;
  const bool copies = group.request->read_cache && !group.scores_prompt();
  const auto partial = copies ? PartialMatch::kAllowed : PartialMatch::kNo;
  ComputedBlocks computed = cache_.GetComputedBlocks(Matchable(sequence), sequence.table, partial);
  const int32_t num_needed = cache_.BlocksNeeded(sequence.table, computed, sequence.num_tokens());
  if (computed.copy_source != kNoBlock && num_needed > NumAvailable()) {
    computed = cache_.GetComputedBlocks(Matchable(sequence), sequence.table, PartialMatch::kNo);
  }
  return computed;
}

// Returns the tokens to pass to a cache lookup: the tokens that the lookup may find, and one more,
// because a lookup never finds the last token.
// - If the request must not read the cache, a lookup may find only tokens that the request computed
//   before a preemption.
// - If the request has prompt_logprobs, a lookup may find only tokens whose log probabilities have
//   already been reported.
SequenceTokens Scheduler::Matchable(const Sequence& sequence) const {
  const SequenceGroup& group = *sequence.group;
  int32_t num_findable = sequence.num_tokens() - 1;
  if (!group.request->read_cache) num_findable = std::min(num_findable, sequence.num_computed_max);
  if (group.scores_prompt()) num_findable = std::min(num_findable, group.num_scored);
  return sequence.tokens().first(static_cast<size_t>(num_findable) + 1);
}

}  // namespace incipit
