// Scheduler::Plan: the tokens that the next step computes for each running sequence.
#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "base/check.h"
#include "scheduler/scheduler.h"

namespace incipit {
namespace {

// Maximum number of waiting sequences of which NumWaitingTokens looks up the cached prefix.
constexpr size_t kLookupsMax = 64;
// AddDecodes prepares each sequence while it adds the sequence that was admitted kPreparedAhead
// sequences earlier. The memory of several sequences is then loaded at the same time.
constexpr size_t kPreparedAhead = 4;

// Returns the position at which the first of `prompts` continues, or 0 if `prompts` is empty.
int64_t FirstPosition(const std::vector<Sequence*>& prompts) {
  return prompts.empty() ? 0 : prompts.front()->num_planned;
}

}  // namespace

void StepPlan::Clear() {
  items.clear();
  samples.clear();
  writes.clear();
  copies.clear();
  num_tokens = num_scores = num_decode_tokens = num_preemptions = 0;
  shape = {};
}

void Scheduler::Plan(Time now, StepPlan& plan) {
  INCIPIT_CHECK(num_in_flight_ < options_.steps_in_flight_max);
  plan.Clear();
  ++plan_number_;
  lacks_blocks_ = false;
  if (slot_tenant_ >= 0 &&
      (is_blocked_ || num_running() >= options_.running_max || waiting_.of(slot_tenant_).empty())) {
    slot_tenant_ = -1;
  }
  num_tries_ = num_parks_ = 0;
  first_token_due_ = kNoDeadline;
  started_shape_ = {};
  CountSpareTime(now);
  now_ = now;
  cache_.CountChanges(!waiting_.empty());
  cache_.Advance(now);
  plan.items.reserve(static_cast<size_t>(options_.running_max));
  plan.copies.reserve(static_cast<size_t>(options_.running_max));
  plan.samples.reserve(static_cast<size_t>(options_.running_max) * kChoicesMax);
  if (now >= deadlines_.next()) EndExpired(now);
  if (tier_ != nullptr) EndWaits(now);
  Survey survey = SurveyRunning();
  UpdateRanks();
  if (!MakeRoom(plan, survey)) return;
  ReserveForProtected(survey);
  AddDecodes(survey, plan);
  decode_shape_ = plan.shape;
  prompt_room_ = PromptRoom(survey, plan);
  AddPrompts(now, plan, prompt_room_);
  // If no sequence decodes, the predicted number of prompt tokens may be much too large: several
  // waiting prompts may share an uncached prefix, which is computed only once. So only a step that
  // decodes begins to catch up.
  if (survey.num_decoding == 0) is_catching_up_ = false;
  if (!plan.items.empty()) {
    in_flight_[static_cast<size_t>(num_in_flight_++)] = &plan;
    CountDeferrals();
  }
  INCIPIT_CHECK(num_in_flight_ > 0 || !loading_.empty() || idle());
}

// Counts each waiting sequence once, because the step that is now planned does not start it. The
// sequences in the queue share one reason: the limit at which the last call of Admit has stopped.
void Scheduler::CountDeferrals() {
  const auto count = [this](DeferralReason reason, size_t num_sequences) {
    counts_.deferrals[static_cast<size_t>(reason)] += static_cast<int64_t>(num_sequences);
  };
  count(DeferralReason::kPrefix, static_cast<size_t>(num_parked_));
  count(DeferralReason::kLoad, static_cast<size_t>(num_loading() - num_paused_));
  DeferralReason reason = DeferralReason::kOrder;
  if (lacks_blocks_) {
    reason = DeferralReason::kRoom;
  } else if (num_running() >= options_.running_max) {
    reason = DeferralReason::kSlots;
  } else if (is_blocked_) {
    reason = DeferralReason::kRoom;
  } else if (is_full_) {
    reason = DeferralReason::kTokens;
  }
  count(reason, static_cast<size_t>(waiting_.size()));
}

// Returns true if the next step can compute a token of `sequence`, or can write loaded tokens of
// `sequence` into blocks. The next step can also compute a token that the step in flight samples.
bool Scheduler::HasWork(const Sequence& sequence) const {
  if (sequence.state != SequenceState::kRunning || sequence.needs_next_part()) return false;
  if (sequence.num_pending == 0) return true;
  return sequence.length() < sequence.group->length_max && !NeedsPendingToken(sequence);
}

bool Scheduler::IsDecoding(const Sequence& sequence) const {
  return HasWork(sequence) && sequence.num_missing() == 1;
}

int32_t Scheduler::NumBlocksForOne(const Sequence& sequence) const {
  return cache_.BlocksNeeded(sequence.table, {}, sequence.num_planned + 1);
}

// Counts the running sequences and the blocks that they need. Also sets `protected_`, `earliest_`,
// `num_promised_` and `running_prompts_`, and collects the running sequences whose prompt is not
// computed yet in `prompts_`.
Scheduler::Survey Scheduler::SurveyRunning() {
  Survey survey;
  prompts_.clear();
  num_promised_ = 0;
  running_prompts_ = {};
  for (Sequence* running : running_) {
    const Sequence& sequence = *running;
    const bool is_paused = sequence.state == SequenceState::kRunning && sequence.needs_next_part();
    if (!HasWork(sequence) && !is_paused) continue;
    if (sequence.num_missing() == 1) {
      ++survey.num_decoding;
      survey.num_decode_blocks += NumBlocksForOne(sequence);
      continue;
    }
    prompts_.push_back(running);
    running->is_at_risk = IsAtRisk(sequence, NumToCompute(sequence));
    num_promised_ += cache_.BlocksNeeded(sequence.table, {}, sequence.length());
    running_prompts_.Add(NumToCompute(sequence));
  }
  protected_ = FindEarliest(false);
  earliest_ = FindEarliest(true);
  survey.num_urgent_blocks = survey.num_decode_blocks;
  if (protected_ != nullptr && !IsDecoding(*protected_)) {
    survey.num_urgent_blocks += NumBlocksForOne(*protected_);
  }
  return survey;
}

// Returns the maximum number of prompt tokens that the step computes in addition to `plan`, which
// contains the decoding sequences. With this number, the predicted duration of the step is at most
// StepTimeMax. If such short steps would miss ttft_target, returns the rest of step_tokens_max.
//
// Long steps cannot compute the prompts of a long queue within ttft_target, and slow down the
// output of all other tenants. So while spare time is left, long queues do not count if the step
// decodes a sequence of another tenant.
int32_t Scheduler::PromptRoom(const Survey& survey, const StepPlan& plan) {
  const int32_t room = options_.step_tokens_max - plan.num_tokens;
  const bool was_sparing = std::exchange(is_sparing_, false);
  int64_t num_backlog = NumBacklogTokens();
  if (room <= 1 || num_backlog == 0) {
    is_catching_up_ = is_catching_up_ && num_backlog > 0;
    return room;
  }
  if (survey.num_decoding == 0) {
    is_catching_up_ = IsUrgent(num_backlog, step_times_.PrefillTokensPerSecond(room));
    return room;
  }
  if (step_times_.Predict(plan.shape) == Duration{}) return room;  // no step is measured yet
  const int32_t num_tokens = RoomWithinTarget(plan.shape, FirstPosition(prompts_), room);
  const int32_t num_used = UsedRoom(plan.shape, num_tokens);
  const double tokens_per_second = step_times_.PrefillTokensPerSecond(num_used, plan.shape);
  const double queue_max = QueueTokensMax(plan);
  is_sparing_ = MaySpare() && SparesOthers(plan, queue_max);
  if (is_sparing_) {
    num_backlog = std::min(num_backlog, NumTokensOfOthers(queue_max));
    if (!was_sparing) is_catching_up_ = false;
  }
  if (num_backlog <= num_tokens) is_catching_up_ = false;
  is_catching_up_ |= IsUrgent(num_backlog, tokens_per_second);
  return is_catching_up_ ? room : num_tokens;
}

// Adds the time since the previous plan to `spare_time_`, or subtracts the time if the previous
// step was short because long queues did not count. Does neither if the previous step caught up.
void Scheduler::CountSpareTime(Time now) {
  if (plan_number_ == 1 || is_catching_up_) return;
  const Duration elapsed = now - now_;
  spare_time_ = std::clamp(is_sparing_ ? spare_time_ - elapsed : spare_time_ + elapsed, Duration{},
                           kSpareTimeMax);
}

// Returns the largest number of tokens in a queue that is not long (kLongQueueRatio). Returns
// infinity if no step is measured yet. `plan` contains the decoding sequences of the step.
double Scheduler::QueueTokensMax(const StepPlan& plan) const {
  const int32_t room = std::max(1, options_.step_tokens_max - plan.num_tokens);
  const double tokens_per_second = step_times_.PrefillTokensPerSecond(room, plan.shape);
  if (tokens_per_second <= 0) return std::numeric_limits<double>::infinity();
  return kLongQueueRatio * ToSeconds(TtftTarget()) * tokens_per_second;
}

// Returns true if the prompts of long queues need not count for ttft_target.
bool Scheduler::MaySpare() const {
  // Refusals before a deadline (IsTooLate) assume that steps are full.
  return options_.scheduling == SchedulingKind::kFair && shares_.num_active() > 1 &&
         spare_time_ > Duration{} && deadlines_.next() >= now_ + TtftTarget();
}

// Predicts the number of tokens to compute for the waiting sequences of `tenant`.
double Scheduler::NumQueueTokens(int32_t tenant) const {
  return prompt_lengths_.computed_part() * static_cast<double>(waiting_.of(tenant).num_tokens());
}

// Returns true if a tenant has a queue of more than `queue_max` tokens, and `plan` decodes a
// sequence of a tenant without such a queue.
bool Scheduler::SparesOthers(const StepPlan& plan, double queue_max) const {
  const auto has_long_queue = [&](int32_t tenant) { return NumQueueTokens(tenant) > queue_max; };
  if (std::ranges::none_of(waiting_.tenants(), has_long_queue)) return false;
  return !std::ranges::all_of(plan.items, [&](const StepPlan::Item& item) {
    return has_long_queue(item.sequence->group->standing.tenant);
  });
}

// Predicts the number of prompt tokens that are left to compute for all tenants whose queue has at
// most `queue_max` tokens.
int64_t Scheduler::NumTokensOfOthers(double queue_max) const {
  double num_tokens = 0;
  for (const int32_t tenant : waiting_.tenants()) {
    const double num_waiting = NumQueueTokens(tenant);
    if (num_waiting <= queue_max) num_tokens += num_waiting;
  }
  for (const Sequence* prompt : prompts_) {
    if (NumQueueTokens(prompt->group->standing.tenant) <= queue_max) {
      num_tokens += NumToCompute(*prompt);
    }
  }
  return static_cast<int64_t>(num_tokens);
}

// Returns how many prompt tokens, at most `room`, the step can compute in addition to `plan` and
// still end in time. The step must end before the deadline of each request whose first output token
// the step samples. Returns `room` if `plan` alone already ends too late.
int32_t Scheduler::RoomUntilDue(const StepPlan& plan, int32_t room) const {
  if (first_token_due_ == kNoDeadline || room <= 0 || !step_times_.trained()) return room;
  const Duration left = FromSeconds(kDueRatio * ToSeconds(first_token_due_ - now_));
  if (step_times_.Predict(plan.shape) > left) return room;
  return step_times_.PromptTokensWithin(left, plan.shape, FirstPosition(prompts_), room);
}

// Returns how many prompt tokens, at most `room`, the step can compute in addition to `plan`. If a
// prompt ends in this step, further prompts delay the first output token of this sequence. So
// further prompts must not make the step longer than SharedStepTimeMax.
int32_t Scheduler::RoomAfterStarted(const StepPlan& plan, int32_t room) const {
  if (started_shape_.num_decoding == plan.shape.num_decoding) return room;
  if (room <= 0 || is_catching_up_ || !step_times_.knows_prompts()) return room;
  // Refusals before a deadline (IsTooLate) assume that steps are full.
  if (deadlines_.next() < now_ + TtftTarget()) return room;
  return step_times_.PromptTokensWithin(SharedStepTimeMax(started_shape_), plan.shape,
                                        FirstPosition(prompts_), room);
}

// Returns how many prompt tokens, at most `room`, the step can compute in addition to `plan`.
// The limit of RoomAfterStarted does not apply to the first `reserved` tokens.
int32_t Scheduler::RoomAfter(const StepPlan& plan, int32_t room, int32_t reserved) const {
  room = RoomUntilDue(plan, room);
  return std::max(RoomAfterStarted(plan, room), std::min(room, reserved));
}

// Returns the maximum predicted duration of a step that decodes `decode_part` and computes prompt
// tokens: itl_target or, if itl_target is 0, `ratio` times the duration without the prompt tokens.
Duration Scheduler::StepTimeMax(const StepShape& decode_part, double ratio) const {
  if (options_.itl_target > Duration{}) return options_.itl_target;
  return FromSeconds(ratio * ToSeconds(step_times_.Predict(decode_part)));
}

// Returns StepTimeMax of a step in which a prompt ends, if the step computes further prompts. The
// step decodes the sequences in `decode_part`.
Duration Scheduler::SharedStepTimeMax(const StepShape& decode_part) const {
  return StepTimeMax(decode_part, std::min(options_.itl_ratio, kSharedStepRatio));
}

// Returns the number of prompt tokens, at most `room`, that a step can compute within StepTimeMax,
// but at least 1. The step also computes `decode_part`. The first prompt token has position
// `position` in its sequence.
int32_t Scheduler::RoomWithinTarget(const StepShape& decode_part, int64_t position,
                                    int32_t room) const {
  const Duration limit = StepTimeMax(decode_part, options_.itl_ratio);
  return std::max(1, step_times_.PromptTokensWithin(limit, decode_part, position, room));
}

// Predicts how many prompt tokens the next steps compute, if they decode `decode_part` and have
// room for `room` prompt tokens. A step with room for more than a prompt of mean length does not
// use all of the room, because of SharedStepTimeMax.
int32_t Scheduler::UsedRoom(const StepShape& decode_part, int32_t room) const {
  const auto mean = std::min(room, static_cast<int32_t>(prompt_lengths_.mean_computed()));
  const Duration limit = SharedStepTimeMax(decode_part);
  return std::max({1, mean, step_times_.PromptTokensWithin(limit, decode_part, 0, room)});
}

// Returns the number of prompt tokens that are left to compute in running sequences and in waiting
// sequences. Counts only as many waiting sequences as may start now, because at most running_max
// sequences run.
int64_t Scheduler::NumBacklogTokens() {
  const int32_t num_slots = options_.running_max - num_running();
  if (is_blocked_ || waiting_.empty() || num_slots <= 0) return running_prompts_.num_tokens;
  const double admissible = std::min(1.0, static_cast<double>(num_slots) / num_waiting());
  return running_prompts_.num_tokens + static_cast<int64_t>(admissible * NumWaitingTokens());
}

// Predicts the number of prompt tokens that all waiting sequences must compute. Looks up the cached
// prefix of at most kLookupsMax sequences, and estimates the cached part of the other prompts from
// earlier prompts.
double Scheduler::NumWaitingTokens() {
  int64_t num_known = 0, num_other = waiting_prompts_.num_tokens;
  size_t num_left = kLookupsMax;
  for (const int32_t tenant : waiting_.tenants()) {
    const auto window = waiting_.of(tenant).window();
    for (Sequence* sequence : window.first(std::min(window.size(), num_left))) {
      num_known += sequence->num_tokens() - NumFound(*sequence);
      if (!sequence->group->admitted) num_other -= sequence->request().num_prompt();
    }
    num_left -= std::min(window.size(), num_left);
    if (num_left == 0) break;
  }
  return static_cast<double>(num_known) +
         prompt_lengths_.computed_part() * static_cast<double>(num_other);
}

// Returns true if `num_tokens` prompt tokens take longer than ttft_target at a speed of
// `tokens_per_second`.
bool Scheduler::IsUrgent(int64_t num_tokens, double tokens_per_second) const {
  return static_cast<double>(num_tokens) > ToSeconds(TtftTarget()) * tokens_per_second;
}

Duration Scheduler::TtftTarget() const {
  if (options_.ttft_target > Duration{}) return options_.ttft_target;
  const auto length =
      static_cast<int64_t>(prompt_lengths_.mean_length(running_prompts_, waiting_prompts_));
  const Duration alone =
      step_times_.TimeFor(length, PositionsOf(0, length), options_.step_tokens_max);
  return std::max(kTtftMin, FromSeconds(kPromptRatio * ToSeconds(alone)));
}

// Keeps blocks and one token of the step for the protected sequence, which must advance in every
// step, if the sequence still computes its prompt. A step that only writes a part of the loads of
// the sequence computes no token of the sequence. Such a step needs blocks for the part.
void Scheduler::ReserveForProtected(const Survey& survey) {
  num_reserved_ = num_reserved_tokens_ = 0;
  if (protected_ == nullptr || IsDecoding(*protected_)) return;
  BlockTable& table = protected_->table;
  const int32_t num_blocks =
      static_cast<int32_t>(table.blocks.size()) + cache_.num_free() - survey.num_decode_blocks;
  const int32_t num_fitting = num_blocks * cache_.block_size() - protected_->num_planned;
  const int32_t num_loaded = LoadedOfNextPart(*protected_, num_fitting);
  if (num_loaded > 0 && protected_->loads.has_next_part()) {
    num_reserved_ = cache_.BlocksNeeded(table, {}, protected_->num_planned + num_loaded);
    return;
  }
  num_reserved_ = NumBlocksForOne(*protected_);
  num_reserved_tokens_ = 1;
}

// If `sequence` decodes, computes the key of the block that AddItem will announce, if any, and
// prefetches the memory of this block.
void Scheduler::PrepareDecode(Sequence& sequence) {
  if (!IsDecoding(sequence)) return;
  const int32_t num_known = std::min(sequence.num_planned + 1, sequence.num_tokens());
  cache_.PrepareAnnounce(sequence.table, sequence.tokens().first(static_cast<size_t>(num_known)));
}

// Adds one token of each decoding sequence to the step. The protected sequence comes first. The
// other sequences follow in the order of admission. Leaves the tokens that ReserveForProtected
// keeps.
void Scheduler::AddDecodes(const Survey& survey, StepPlan& plan) {
  if (survey.num_decoding == 0) return;
  const auto decode = [&](Sequence& sequence) {
    INCIPIT_CHECK(cache_.AllocateSlots(sequence.table, {}, sequence.num_planned + 1));
    AddItem(sequence, 1, 0, plan);
  };
  const int32_t budget = options_.step_tokens_max - num_reserved_tokens_;
  if (IsDecoding(*protected_)) decode(*protected_);
  for (size_t i = 0; i < running_.size(); ++i) {
    if (plan.num_tokens >= budget) return;
    if (i + kPreparedAhead < running_.size()) PrepareDecode(*running_[i + kPreparedAhead]);
    Sequence& sequence = *running_[i];
    if (&sequence != protected_ && IsDecoding(sequence)) decode(sequence);
  }
}

// Returns true if the running prompt `a` gets tokens of the step before the running prompt `b`. The
// first criterion in this list by which the prompts differ decides:
// - A prompt that waits for the next part of its loads goes last, and gets no tokens.
// - A prompt that was admitted while an earlier sequence did not fit (is_passing) goes last.
// - The order of the policy (ComparePrompts).
// - A prompt that may miss its deadline (is_at_risk) goes first; of two such prompts, the one with
//   the earlier deadline.
// - A prompt with fewer tokens left to compute goes first. Numbers of tokens up to
//   long_prefill_tokens count as equal.
// - The prompt with the smaller key (OrderKey) goes first.
bool Scheduler::IsComputedBefore(const Sequence& a, const Sequence& b) const {
  if (a.needs_next_part() != b.needs_next_part()) return b.needs_next_part();
  if (a.is_passing != b.is_passing) return b.is_passing;
  const std::partial_ordering order = policy_->ComparePrompts(a.standing, b.standing);
  if (order != 0) return order < 0;
  if (a.is_at_risk != b.is_at_risk) return a.is_at_risk;
  if (a.is_at_risk && a.standing.first_token_by != b.standing.first_token_by) {
    return a.standing.first_token_by < b.standing.first_token_by;
  }
  const int32_t left_a = std::max(a.num_missing(), options_.long_prefill_tokens);
  const int32_t left_b = std::max(b.num_missing(), options_.long_prefill_tokens);
  return left_a != left_b ? left_a < left_b : a.standing.key < b.standing.key;
}

// Returns true if the running `prompt` yields: waiting sequences of the same tenant may start first
// although they do not fit into the step as a whole (kYieldParts). Several unfinished prompts hold
// blocks for longer, so at most one sequence at a time starts first. A prompt does not yield to a
// long queue, because requests of other tenants wait for all running prompts.
bool Scheduler::Yields(const Sequence& prompt, const StepPlan& plan) const {
  return prompts_.size() == 1 && !prompt.is_at_risk &&
         NumQueueTokens(prompt.group->standing.tenant) <= QueueTokensMax(plan);
}

// Distributes `room` prompt tokens of the step in this order:
// 1. Running prompts, until a prompt does not fit into the step as a whole.
// 2. Waiting sequences that have fewer tokens to compute than the prompt that did not fit. If
//    this prompt yields (Yields), the sequences need not fit into the step.
// 3. The remaining running prompts.
// 4. The remaining waiting sequences.
//
// Passing sequences (admitted while an earlier sequence does not fit into the cache) start only
// after all running prompts, so that they delay no sequence whose blocks the earlier sequence
// needs.
//
// Reserves a quarter of the tokens for the oldest running prompt (the smallest OrderKey), and the
// tokens that ReserveForProtected keeps for the protected sequence.
void Scheduler::AddPrompts(Time now, StepPlan& plan, int32_t room) {
  const bool may_admit =
      !lacks_blocks_ && num_waiting() > 0 && num_running() < options_.running_max;
  std::ranges::sort(
      prompts_, [this](const Sequence* a, const Sequence* b) { return IsComputedBefore(*a, *b); });
  // Prompts that this step can continue. Does not count prompts that Admit appends.
  const auto num_prompts = static_cast<size_t>(std::ranges::count_if(
      prompts_, [](const Sequence* prompt) { return !prompt->needs_next_part(); }));
  Sequence* oldest = nullptr;
  for (Sequence* prompt : std::span(prompts_).first(num_prompts)) {
    if (oldest == nullptr || prompt->standing.key < oldest->standing.key) oldest = prompt;
  }
  int32_t for_oldest = oldest == nullptr ? 0 : (room + 3) / 4;
  int32_t for_protected = num_reserved_tokens_;
  const auto room_for = [&](const Sequence& sequence) {
    int32_t reserved = 0;
    if (&sequence != oldest) reserved += for_oldest;
    if (&sequence != protected_ && protected_ != oldest) reserved += for_protected;
    return room - reserved;
  };
  const auto compute = [&](Sequence& sequence) {
    if (&sequence == protected_) num_reserved_ = 0;
    const int32_t num_planned = sequence.num_planned;
    room -= ContinuePrompt(
        sequence, std::max<int32_t>(room_for(sequence), &sequence == protected_ ? 1 : 0), plan);
    sequence.is_stalled = sequence.num_planned == num_planned;
    if (&sequence == oldest) for_oldest = 0;
    if (&sequence == protected_) for_protected = 0;
    room = RoomAfter(plan, room, for_oldest);
  };
  size_t next = 0;
  for (; next < num_prompts; ++next) {
    if (prompts_[next]->num_missing() > room_for(*prompts_[next])) break;
    compute(*prompts_[next]);
  }
  const bool yields = may_admit && next < num_prompts && Yields(*prompts_[next], plan);
  yielding_ = yields ? prompts_[next] : nullptr;
  if (may_admit) {
    const int32_t available = room - std::max(for_oldest, for_protected);
    int32_t missing_max = std::max(available, options_.long_prefill_tokens);
    if (next < num_prompts) missing_max = std::min(missing_max, prompts_[next]->num_missing() - 1);
    room -= Admit(now, plan, available, missing_max, next == num_prompts);
    room = RoomAfter(plan, room, for_oldest);
  }
  for (; next < num_prompts; ++next) compute(*prompts_[next]);
  if (may_admit) Admit(now, plan, room, std::numeric_limits<int32_t>::max(), true);
}

// Adds up to `tokens_max` prompt tokens of a running sequence to the plan, or fewer if too few
// blocks are free. If a part of the loads of `sequence` is in staging, also adds the writes of this
// part. Returns the number of tokens that the step computes.
int32_t Scheduler::ContinuePrompt(Sequence& sequence, int32_t tokens_max, StepPlan& plan) {
  const int32_t num_blocks =
      static_cast<int32_t>(sequence.table.blocks.size()) + cache_.num_free() - num_reserved_;
  const int32_t num_fitting = num_blocks * cache_.block_size() - sequence.num_planned;
  const int32_t num_loaded = LoadedOfNextPart(sequence, num_fitting);
  int32_t num_tokens = 0;
  if (num_loaded == 0 || !sequence.loads.has_next_part()) {
    num_tokens =
        std::min({sequence.num_missing() - num_loaded, tokens_max, num_fitting - num_loaded});
  }
  if (num_tokens <= 0 && num_loaded == 0) return 0;
  num_tokens = std::max(num_tokens, 0);
  sequence.num_planned += num_loaded;
  const int32_t token_end = sequence.num_planned + num_tokens;
  num_promised_ -= cache_.BlocksNeeded(sequence.table, {}, token_end);
  INCIPIT_CHECK(cache_.AllocateSlots(sequence.table, {}, token_end));
  if (num_loaded > 0) sequence.table.num_loaded = num_loaded / cache_.block_size();
  // The sequence has waited for a part of its loads, and has computed no token yet.
  if (sequence.admission_pending && sequence.num_in_flight == 0) {
    sequence.group->wait.Enter(WaitReason::kShare, now_);
  }
  AddItem(sequence, num_tokens, num_loaded, plan);
  return num_tokens;
}

// Adds a part of the step that computes the next `num_tokens` tokens of `sequence`. REQUIRES:
// `num_planned` includes the `num_loaded` tokens that the step writes from staging into blocks.
void Scheduler::AddItem(Sequence& sequence, int32_t num_tokens, int32_t num_loaded,
                        StepPlan& plan) {
  SequenceGroup& group = *sequence.group;
  StepPlan::Item& item = plan.items.emplace_back();
  item.sequence = &sequence;
  item.first_token = sequence.num_planned;
  item.num_tokens = num_tokens;
  item.num_loaded = num_loaded;
  item.sample_begin = static_cast<int32_t>(plan.samples.size());
  if (num_tokens == 1 && item.first_token >= group.num_prompt) {
    plan.shape.AddDecode(item.first_token);
    started_shape_.AddDecode(item.first_token);
  } else if (num_tokens > 0) {
    plan.shape.AddPromptChunk(item.first_token, num_tokens);
  }
  const int32_t token_end = item.first_token + num_tokens;
  if (token_end > sequence.num_tokens()) item.fed_sample = sequence.pending_sample;
  if (token_end == sequence.length()) {
    plan.samples.push_back(&sequence);
    const bool is_prompt = token_end == group.num_prompt;
    if (is_prompt) {
      first_token_due_ = std::min(first_token_due_, sequence.standing.first_token_by);
      if (group.length_max > group.num_prompt + 1) {
        started_shape_.AddDecode(token_end);
      }
      for (Sequence& other : group.sequences) {
        if (other.state == SequenceState::kUnborn) plan.samples.push_back(&other);
      }
    } else {
      ++plan.num_decode_tokens;
    }
    item.num_samples = static_cast<int32_t>(plan.samples.size()) - item.sample_begin;
    shares_.ChargeOutput(group.standing.tenant, item.num_samples);
  }
  if (group.scores_prompt()) {
    // The logits of a token give the log probability of the next token. The log probabilities up to
    // `first_token` are reported already, or a step in flight computes them.
    item.score_begin = std::max(group.num_scored, item.first_token) + 1;
    item.num_scores = std::max(0, std::min(token_end + 1, group.num_prompt) - item.score_begin);
  }
  const bool is_first = sequence.num_in_flight == 0;
  if (num_loaded > 0) AddWrites(item, plan);
  if (is_first && sequence.table.copy.from != kNoBlock) plan.copies.push_back(sequence.table.copy);
  // Let lookups find the blocks that this step computes, except a block with a token that is not
  // sampled yet. The key of such a block is unknown.
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
  WakeReadyWaiters(sequence);
}

}  // namespace incipit
