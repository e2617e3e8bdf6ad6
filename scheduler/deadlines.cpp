// Deadlines: requests end when their deadline has passed, and are refused when their first token
// cannot be computed in time.
#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "scheduler/scheduler.h"

namespace incipit {
namespace {

// Maximum number of sequences that CountAhead counts.
constexpr size_t kCountedMax = 64;
// Maximum number of waiting requests for which one plan calls CountAhead. Other requests are
// checked after an eighth of the time to their deadline.
constexpr int32_t kForecastsMax = 32;
// See LacksSlots.
constexpr double kEndsDeviations = 2.33;

}  // namespace

void Scheduler::EndExpired(Time now) {
  num_forecasts_ = 0;
  while (deadlines_.next() <= now) LookAtDeadline(deadlines_.front(), now);
  Sweep();
}

// Ends the request `group` if its deadline has passed, or if its first token cannot be computed in
// time. Otherwise sets the time of the next check of the deadline.
void Scheduler::LookAtDeadline(SequenceGroup& group, Time now) {
  const Request& request = *group.request;
  if (request.deadline <= now) {
    EndGroup(group, FinishReason::kDeadline);
    return;
  }
  Sequence& prompt = group.sequences.front();
  const bool is_running = prompt.state == SequenceState::kRunning && prompt.num_output() == 0 &&
                          prompt.num_pending == 0 && !group.scores_prompt();
  const Duration left = request.first_token_by() - now;
  Duration needed{};
  bool is_hopeless = false;
  Time look_at = request.deadline;
  if (!group.admitted && prompt.state == SequenceState::kWaiting) {
    if (num_forecasts_ == kForecastsMax && left > Duration{8}) {
      SetLookAt(group, now + left / 8);
      return;
    }
    ++num_forecasts_;
    const int32_t num_missing = NumMissingAtMost(prompt);
    needed = PromptTime(prompt, num_missing, kRefusalRatio);
    is_hopeless = IsHopeless(prompt, num_missing, left);
    // More requests may go first later, so check again after half of the time that is left.
    if (left > Duration{}) look_at = now + std::max(Duration{1}, std::min(left - needed, left / 2));
  } else if (is_running) {
    needed = PromptTime(prompt, NumToCompute(prompt), 1);
    if (needed > Duration{}) look_at = now + (left - needed);
  }
  if (is_hopeless || (needed > Duration{} && needed >= left)) {
    EndGroup(group, FinishReason::kTooLate);
    return;
  }
  SetLookAt(group, look_at);
}

void Scheduler::SetLookAt(SequenceGroup& group, Time look_at) {
  deadlines_.Remove(group);
  group.look_at = look_at;
  deadlines_.Push(group);
}

// Returns true if the waiting `sequence` cannot get its first token within `left`, because too many
// sequences go first in any case (CountAhead). `sequence` must compute `num_missing` tokens.
bool Scheduler::IsHopeless(const Sequence& sequence, int32_t num_missing, Duration left) {
  if (!step_times_.trained()) return false;
  const Ahead ahead = CountAhead(sequence, num_missing);
  return TimeAhead(ahead.num_tokens) >= left || LacksSlots(sequence, ahead.num_sequences, left);
}

// Returns the predicted time to compute `num_tokens` tokens of several prompts. Assumes steps of
// the same size as the latest step.
Duration Scheduler::TimeAhead(int64_t num_tokens) const {
  const double num_positions =
      prompt_lengths_.positions_per_token() * static_cast<double>(num_tokens);
  return step_times_.TimeFor(num_tokens, static_cast<int64_t>(num_positions),
                             std::max(prompt_room_, 1), decode_shape_);
}

// Returns true if the waiting `sequence` almost certainly gets no slot (place for a running
// sequence) within `left`, because `num_ahead` waiting sequences get the next slots. The number of
// sequences that end within `left` is treated as Poisson distributed. The number exceeds mean +
// kEndsDeviations * sqrt(mean) with a probability of about 1 %.
bool Scheduler::LacksSlots(const Sequence& sequence, int32_t num_ahead, Duration left) const {
  const double slot_s = slot_times_.mean_s() / options_.running_max;
  if (slot_s <= 0) return false;
  int32_t num_available = options_.running_max - num_running();
  if (options_.scheduling == SchedulingKind::kFair) {
    // The tenant may take slots of other tenants, up to its share.
    const int32_t tenant = sequence.group->standing.tenant;
    const double share = std::ceil(shares_.SlotsOf(tenant, options_.running_max));
    num_available =
        std::max(num_available, static_cast<int32_t>(share) - shares_.num_running(tenant));
  }
  const int32_t num_needed = num_ahead + 1 - num_available;
  const double mean = ToSeconds(left) / slot_s;
  return num_needed > mean + kEndsDeviations * std::sqrt(mean) + 1;
}

// Returns the time from which on the waiting `sequence` is at risk (IsAtRisk).
Time Scheduler::RiskTime(const Sequence& sequence, int32_t num_missing) const {
  if (sequence.standing.first_token_by == kNoDeadline) return kNoDeadline;
  return sequence.standing.first_token_by - PromptTime(sequence, num_missing, kRiskRatio);
}

// Returns the work before the first token of the waiting `sequence`. Counts only sequences that go
// first in any case, except if requests are cancelled or refused: a waiting sequence counts only if
// the order of the queue, the order by deadline and the order by length all place it before
// `sequence`. Counts at most kCountedMax sequences. A prefix that several sequences share counts
// once.
Scheduler::Ahead Scheduler::CountAhead(const Sequence& sequence, int32_t num_missing) {
  Ahead ahead;
  std::array<const Sequence*, kCountedMax> counted{};
  size_t num_counted = 0;
  // Returns the number of tokens of `other` that no counted sequence computes.
  const auto num_own = [&](const Sequence& other, int32_t num_left) {
    const int32_t num_found = other.num_tokens() - num_left;
    int32_t num_shared = num_found;
    for (const Sequence* earlier : std::span(counted).first(num_counted)) {
      if (!SharesBlockAt(*earlier, other, num_found)) continue;
      num_shared = std::max(num_shared, NumSharedTokens(*earlier, other));
    }
    return other.num_tokens() - num_shared;
  };
  for (const Sequence* prompt : running_) {
    if (prompt->state != SequenceState::kRunning || prompt->num_missing() <= 1) continue;
    if (policy_->ComparePrompts(prompt->standing, sequence.standing) > 0) continue;
    const int32_t num_left = NumToCompute(*prompt);
    const bool is_earlier = prompt->standing.first_token_by <= sequence.standing.first_token_by;
    if (num_counted < kCountedMax && (is_earlier || num_left <= num_missing)) {
      ahead.num_tokens += num_own(*prompt, num_left);
      counted[num_counted++] = prompt;
    }
  }
  const Time risk_at = RiskTime(sequence, num_missing);
  for (const int32_t tenant : waiting_.tenants()) {
    const bool is_ordered = options_.scheduling == SchedulingKind::kFcfs;
    if (tenant != sequence.standing.tenant && !is_ordered) continue;
    for (Sequence* other : waiting_.of(tenant).window()) {
      if (num_counted == kCountedMax || !IsBefore(*other, sequence)) break;
      if (other->standing.first_token_by > sequence.standing.first_token_by) continue;
      const int32_t num_left = NumMissingAtMost(*other);
      if (num_left > std::max(num_missing, options_.long_prefill_tokens)) continue;
      if (RiskTime(*other, num_left) > risk_at) continue;
      const int64_t num_tokens = ahead.num_tokens + num_own(*other, num_left);
      // A sequence that cannot be in time will be refused.
      if (TimeAhead(num_tokens) > other->standing.first_token_by - now_) continue;
      ahead.num_tokens = num_tokens;
      counted[num_counted++] = other;
      ++ahead.num_sequences;
    }
  }
  ahead.num_tokens += num_own(sequence, num_missing);
  return ahead;
}

// Returns the number of tokens that the waiting `sequence` must compute. Does not count a prefix
// that is cached, that a tier can load, or that a running sequence (`producer`) computes.
// Assumes that no block of this prefix is evicted, and that no load fails.
int32_t Scheduler::NumMissingAtMost(Sequence& sequence) {
  if (sequence.producer != nullptr) return sequence.num_tokens() - sequence.shared_tokens;
  if (sequence.loads.is_waiting) return sequence.num_tokens() - LoadableEnd(sequence);
  return sequence.num_tokens() - NumFoundAtMost(sequence);
}

// Returns the predicted time to compute the last `num_missing` tokens of `sequence`, multiplied by
// `ratio`. Assumes steps of the same size as the latest step. Returns 0 if the predictions are not
// reliable yet.
Duration Scheduler::PromptTime(const Sequence& sequence, int32_t num_missing, double ratio) const {
  if (!step_times_.trained()) return {};
  const int64_t first = std::max(0, sequence.num_tokens() - num_missing);
  const Duration predicted = step_times_.TimeFor(num_missing, PositionsOf(first, num_missing),
                                                 std::max(prompt_room_, 1), decode_shape_);
  return FromSeconds(ratio * ToSeconds(predicted));
}

// Returns true if the deadline of the first token is near: the time to the deadline is less than
// kRiskRatio times the predicted time to compute the `num_missing` tokens of `sequence`.
bool Scheduler::IsAtRisk(const Sequence& sequence, int32_t num_missing) const {
  if (sequence.standing.first_token_by == kNoDeadline || sequence.num_output() > 0) return false;
  return sequence.standing.first_token_by - now_ < PromptTime(sequence, num_missing, kRiskRatio);
}

// Returns true if `sequence` is predicted to miss the deadline of its first token. The prediction
// includes the `num_missing` prompt tokens that `sequence` must compute, the tokens of `plan`, and
// the running prompts that go first.
bool Scheduler::IsTooLate(const Sequence& sequence, int32_t num_missing,
                          const StepPlan& plan) const {
  if (sequence.standing.first_token_by == kNoDeadline || sequence.group->admitted) return false;
  const Duration left = sequence.standing.first_token_by - now_;
  StepShape shape = plan.shape;
  shape.AddPromptChunk(sequence.num_tokens() - num_missing, num_missing);
  if (step_times_.trained() && step_times_.Predict(shape) > left) return true;
  int32_t num_ahead = 0;
  for (const Sequence* prompt : prompts_) {
    const int32_t num_left = NumToCompute(*prompt);
    const bool is_earlier = prompt->standing.first_token_by <= sequence.standing.first_token_by;
    if (num_left > 1 && (is_earlier || num_left <= num_missing)) num_ahead += num_left;
  }
  return left < PromptTime(sequence, num_missing + num_ahead, kRefusalRatio);
}

}  // namespace incipit
