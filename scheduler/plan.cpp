// Scheduler::Plan: who computes what in the next step.
#include <algorithm>

#include "base/check.h"
#include "scheduler/scheduler.h"

namespace incipit {
namespace {

// Tokens of a step that has prompts beside answers, at least: fewer cost nearly as much. The second
// is a part of the budget, which tells how fast the machine is.
constexpr int32_t kMixedTokensMin = 16;
constexpr int32_t kMixedBudgetParts = 32;

}  // namespace

void StepPlan::Clear() {
  items.clear();
  samples.clear();
  copies.clear();
  num_tokens = num_scores = num_decode_tokens = num_preemptions = 0;
}

void Scheduler::Plan(Time now, StepPlan& plan) {
  INCIPIT_CHECK(num_in_flight_ < options_.steps_in_flight_max);
  plan.Clear();
  cache_.Advance(now);
  plan.items.reserve(static_cast<size_t>(options_.running_max));
  plan.copies.reserve(static_cast<size_t>(options_.running_max));
  plan.samples.reserve(static_cast<size_t>(options_.running_max) * kChoicesMax);
  if (now >= next_deadline_) EndExpired(now);
  if (num_in_flight_ > 0 && !MayPlanAhead()) return;
  int32_t prompt_room = PromptRoom();
  ContinueRunning(plan, prompt_room);
  if (plan.num_preemptions == 0) Admit(now, plan, prompt_room);
  if (!plan.items.empty()) in_flight_[static_cast<size_t>(num_in_flight_++)] = &plan;
  INCIPIT_CHECK(num_in_flight_ > 0 || idle());
}

// Whether there is anything to compute for it: the step in flight may be its last.
bool Scheduler::HasWork(const Sequence& sequence) const {
  if (sequence.state != SequenceState::kRunning) return false;
  return sequence.num_pending == 0 || sequence.length() < sequence.request().length_max();
}

// Whether a step can follow the one in flight before that is committed: see the class.
bool Scheduler::MayPlanAhead() const {
  int32_t num_needed = 0;
  for (const Sequence* sequence : running_) {
    if (sequence->end_at_commit) return false;
    if (!HasWork(*sequence)) continue;
    if (sequence->num_pending > 0 && NeedsPendingToken(*sequence)) return false;
    const int32_t num_tokens = std::min(sequence->num_missing(), options_.step_tokens_max);
    num_needed += cache_.BlocksNeeded(sequence->table, {}, sequence->num_planned + num_tokens);
  }
  return num_needed <= cache_.num_free();
}

// How many tokens of prompts the step may have.
int32_t Scheduler::PromptRoom() const {
  if (options_.prompt_steps_max == 1) return options_.step_tokens_max;
  int64_t num_decoding = 0, num_prompt_tokens = num_waiting_prompt_tokens_;
  for (const Sequence* sequence : running_) {
    if (!HasWork(*sequence)) continue;
    if (sequence->num_missing() == 1) {
      ++num_decoding;
    } else if (sequence->group->admitted) {  // else it counts as waiting
      num_prompt_tokens += sequence->num_tokens() - sequence->num_hit_tokens;
    }
  }
  const int64_t budget = options_.step_tokens_max;
  if (num_decoding == 0) return options_.step_tokens_max;
  const int64_t num_sequences =
      std::min<int64_t>(num_running() + num_waiting(), options_.running_max);
  const int64_t num_mixed = std::max<int64_t>(
      {num_sequences + num_sequences / 4, kMixedTokensMin, budget / kMixedBudgetParts});
  const int64_t num_due = num_prompt_tokens / options_.prompt_steps_max;
  return static_cast<int32_t>(
      std::clamp<int64_t>(std::max(num_mixed - num_decoding, num_due), 1, budget));
}

// In order, so that the first always advances: whoever finds no room takes it from the last. A long
// prompt leaves one token of the budget to each later sequence that is decoding.
void Scheduler::ContinueRunning(StepPlan& plan, int32_t& prompt_room) {
  const auto is_decoding = [this](const Sequence* sequence) {
    return HasWork(*sequence) && sequence->num_missing() == 1;
  };
  auto num_decoding_after = static_cast<int32_t>(std::ranges::count_if(running_, is_decoding));
  for (size_t i = 0; i < running_.size() && plan.num_tokens < options_.step_tokens_max; ++i) {
    Sequence& sequence = *running_[i];
    if (!HasWork(sequence)) continue;
    if (is_decoding(&sequence)) --num_decoding_after;
    const int32_t room = options_.step_tokens_max - plan.num_tokens;
    const bool is_prompt = !is_decoding(&sequence);
    if (is_prompt && prompt_room == 0) continue;
    int32_t num_tokens = std::min(sequence.num_missing(), std::max(1, room - num_decoding_after));
    if (is_prompt) num_tokens = std::min(num_tokens, prompt_room);
    bool allocated = false;
    while (!(allocated =
                 cache_.AllocateSlots(sequence.table, {}, sequence.num_planned + num_tokens))) {
      const Sequence* last = running_.back();
      if (last != &sequence && is_decoding(last)) --num_decoding_after;
      PreemptLast();
      ++plan.num_preemptions;
      if (last == &sequence) break;
    }
    if (!allocated) continue;
    AddItem(sequence, num_tokens, plan);
    if (is_prompt) prompt_room -= num_tokens;
  }
}

void Scheduler::PreemptLast() {
  Sequence& victim = *running_.back();
  INCIPIT_CHECK(num_in_flight_ == 0 && victim.num_in_flight == 0);
  running_.pop_back();
  cache_.Free(victim.table);
  victim.returning = true;
  Enqueue(victim);
}

// From the front of the queue, strictly in order: letting a later, smaller request pass would
// starve an earlier one. Where the budget has something left, the running ones have all the blocks
// that their tokens need; a sequence joins them only if there is room for all of its own, or it
// would soon take blocks from them, and they from it.
void Scheduler::Admit(Time now, StepPlan& plan, int32_t prompt_room) {
  while (!waiting_.empty() && plan.num_tokens < options_.step_tokens_max && prompt_room > 0 &&
         num_running() < options_.running_max) {
    Sequence& next = waiting_.front();
    const ComputedBlocks computed = LookUp(next);
    if (!cache_.Preview(next.table, computed, next.num_tokens()).fits) break;
    if (!next.group->admitted) {
      next.miss = cache_.ExplainMiss(Matchable(next), next.table, computed);
    }

    const int32_t room = std::min(options_.step_tokens_max - plan.num_tokens, prompt_room);
    const int32_t num_tokens = std::min(next.num_tokens() - computed.num_tokens, room);
    INCIPIT_CHECK(cache_.AllocateSlots(next.table, computed, computed.num_tokens + num_tokens));
    waiting_.Remove(next);
    next.num_computed = next.num_planned = next.num_hit_tokens = computed.num_tokens;
    next.num_copied_tokens = computed.copy_tokens;
    next.num_computed_max = std::max(next.num_computed_max, next.num_computed);
    next.admission_pending = true;
    if (!next.group->admitted) next.group->first_planned = now;
    InsertRunning(next);
    AddItem(next, num_tokens, plan);
    prompt_room -= num_tokens;
  }
}

AdmissionPreview Scheduler::Preview(const SequenceGroup& group) {
  const Sequence& prompt = group.sequences.front();
  return cache_.Preview(prompt.table, LookUp(prompt), prompt.num_tokens());
}

// A copy is left out where there is room for the sequence but not for its source beside it.
ComputedBlocks Scheduler::LookUp(const Sequence& sequence) {
  const SequenceGroup& group = *sequence.group;
  const bool copies = group.request->read_cache && !group.scores_prompt();
  const auto partial = copies ? PartialMatch::kAllowed : PartialMatch::kNo;
  ComputedBlocks computed = cache_.GetComputedBlocks(Matchable(sequence), sequence.table, partial);
  const int32_t num_needed = cache_.BlocksNeeded(sequence.table, computed, sequence.num_tokens());
  if (computed.copy_source != kNoBlock && num_needed > cache_.num_free()) {
    computed = cache_.GetComputedBlocks(Matchable(sequence), sequence.table, PartialMatch::kNo);
  }
  return computed;
}

// What a sequence may be matched by: one token more than can be found. A request that asked not to
// read the cache finds what it has itself computed before, and one whose prompt is being scored
// nothing whose score is still to come.
SequenceTokens Scheduler::Matchable(const Sequence& sequence) const {
  const SequenceGroup& group = *sequence.group;
  int32_t num_findable = sequence.num_tokens() - 1;
  if (!group.request->read_cache) num_findable = std::min(num_findable, sequence.num_computed_max);
  if (group.scores_prompt()) num_findable = std::min(num_findable, group.num_scored);
  return sequence.tokens().first(static_cast<size_t>(num_findable) + 1);
}

void Scheduler::InsertRunning(Sequence& sequence) {
  sequence.state = SequenceState::kRunning;
  const auto later = std::ranges::upper_bound(
      running_, &sequence, [](const Sequence* a, const Sequence* b) { return IsBefore(*a, *b); });
  running_.insert(later, &sequence);
}

void Scheduler::AddItem(Sequence& sequence, int32_t num_tokens, StepPlan& plan) {
  SequenceGroup& group = *sequence.group;
  StepPlan::Item& item = plan.items.emplace_back();  // in place: a copy would wait for its stores
  item.sequence = &sequence;
  item.first_token = sequence.num_planned;
  item.num_tokens = num_tokens;
  item.sample_begin = static_cast<int32_t>(plan.samples.size());
  const int32_t token_end = item.first_token + num_tokens;
  if (token_end > sequence.num_tokens()) item.fed_sample = sequence.pending_sample;
  if (token_end == sequence.length()) {
    plan.samples.push_back(&sequence);
    const bool is_prompt = token_end == group.request->num_prompt();
    if (!is_prompt) ++plan.num_decode_tokens;
    for (Sequence& other : group.sequences) {
      if (is_prompt && other.state == SequenceState::kUnborn) plan.samples.push_back(&other);
    }
    item.num_samples = static_cast<int32_t>(plan.samples.size()) - item.sample_begin;
  }
  if (group.scores_prompt()) {
    // The row of a token scores the one after it; a step in flight scores all up to its end.
    item.score_begin = std::max(group.num_scored, item.first_token) + 1;
    item.num_scores =
        std::max(0, std::min(token_end + 1, group.request->num_prompt()) - item.score_begin);
  }
  const bool is_first = sequence.num_in_flight == 0;
  if (is_first && sequence.table.copy.from != kNoBlock) plan.copies.push_back(sequence.table.copy);
  // A block that a pending token fills is announced when the token is known.
  const auto num_known = static_cast<size_t>(std::min(token_end, sequence.num_tokens()));
  cache_.Announce(sequence.table, sequence.tokens().first(num_known));
  ++sequence.num_in_flight;
  sequence.num_planned = token_end;
  if (item.num_samples > 0) {
    ++sequence.num_pending;
    sequence.pending_sample = item.sample_begin;
  }
  plan.num_tokens += num_tokens;
  plan.num_scores += item.num_scores;
}

}  // namespace incipit
