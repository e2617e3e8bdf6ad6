// Deadlines: requests end when their deadline has passed, and are refused when their first token
// cannot be computed in time.
#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "scheduler/scheduler.h"

namespace incipit {
namespace {

// A waiting request is refused if the time to its deadline is less than this multiple of the
// predicted time of its prompt. Other prompts share the steps, so the prompt takes longer.
constexpr double kRefusalRatio = 1.2;
// A request is at risk if the time to its deadline is less than this multiple of the predicted time
// of its prompt.
constexpr double kRiskRatio = 4;
// Maximum number of sequences that CountAhead counts.
constexpr size_t kCountedMax = 64;
// Maximum number of waiting requests for which one plan calls CountAhead. Other requests are
// checked after an eighth of the time to their deadline.
constexpr int32_t kForecastsMax = 32;
// Number of standard deviations by which LacksSlots raises the mean number of sequences that end.
constexpr double kEndsDeviations = 2.33;
// Number of sequences that must have ended before their mean running time is used.
constexpr double kEndsMin = 8;

// Returns true if steps compute the last `num_left` tokens of the running `prompt` before
// `sequence`, which must compute `num_missing` tokens. Does not compare the ranks by the policy.
bool IsComputedFirst(const Sequence& prompt, int32_t num_left, const Sequence& sequence,
                     int32_t num_missing) {
  return prompt.standing.first_token_by <= sequence.standing.first_token_by ||
         num_left <= num_missing;
}

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
  if (!group.admitted && prompt.state == SequenceState::kWaiting) {
    const Duration whole = PromptTime(prompt, request.num_prompt(), kRefusalRatio);
    if (num_forecasts_ >= kForecastsMax && whole < left) {
      SetLookAt(group, now + std::max(Duration{1}, std::min(left - whole, left / 8)));
      return;
    }
    const int32_t num_missing = NumMissingAtMost(prompt);
    needed = PromptTime(prompt, num_missing, kRefusalRatio);
    is_hopeless = ++num_forecasts_ <= kForecastsMax && IsHopeless(prompt, num_missing, left);
  } else if (is_running) {
    needed = PromptTime(prompt, NumToCompute(prompt), 1);
  }
  const Time look_at = needed > Duration{} ? request.first_token_by() - needed : request.deadline;
  if (is_hopeless || look_at <= now) {
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

// Returns the predicted time to compute `num_tokens` tokens of several prompts in full steps.
Duration Scheduler::TimeAhead(int64_t num_tokens) const {
  const double num_positions =
      prompt_lengths_.positions_per_token() * static_cast<double>(num_tokens);
  const int32_t room = options_.step_tokens_max - static_cast<int32_t>(decode_shape_.num_decoding);
  return step_times_.TimeFor(num_tokens, static_cast<int64_t>(num_positions), std::max(room, 1),
                             decode_shape_);
}

// Returns true if the waiting `sequence` almost certainly gets no slot (place for a running
// sequence) within `left`, because `num_ahead` waiting sequences get the next slots. All running
// sequences that may reach their maximum length within `left` count as ended. The number of other
// sequences that end within `left` is treated as Poisson distributed: the number exceeds mean +
// kEndsDeviations * sqrt(mean) with a probability of about 1 %.
bool Scheduler::LacksSlots(const Sequence& sequence, int32_t num_ahead, Duration left) const {
  if (slot_times_.num_ends() < kEndsMin) return false;
  // `running_` still contains the sequences that this plan has ended.
  int32_t num_available = options_.running_max - num_running() + num_to_sweep_;
  if (options_.scheduling == SchedulingKind::kFair) {
    // The tenant may take slots of other tenants, up to its share.
    const int32_t tenant = sequence.group->standing.tenant;
    const double share = std::ceil(shares_.SlotsOf(tenant, options_.running_max));
    num_available =
        std::max(num_available, static_cast<int32_t>(share) - shares_.num_running(tenant));
  }
  const double mean = ToSeconds(left) / (slot_times_.mean_s() / options_.running_max);
  const double num_ends_max = mean + kEndsDeviations * std::sqrt(mean) + 1;
  if (num_ahead + 1 - num_available <= num_ends_max) return false;
  const Duration step = step_times_.Predict(decode_shape_);
  const auto ends = std::ranges::count_if(running_, [&](const Sequence* running) {
    const int32_t num_tokens = running->group->length_max - running->length();
    return num_tokens * step <= left;
  });
  return num_ahead + 1 - num_available - static_cast<int32_t>(ends) > num_ends_max;
}

// Returns the time from which on the waiting `sequence` is at risk (IsAtRisk).
Time Scheduler::RiskTime(const Sequence& sequence, int32_t num_missing) const {
  if (sequence.standing.first_token_by == kNoDeadline) return kNoDeadline;
  return sequence.standing.first_token_by - PromptTime(sequence, num_missing, kRiskRatio);
}

// Returns the work before the first token of the waiting `sequence`. Counts only sequences of the
// same tenant that certainly start before `sequence`. A waiting sequence counts if the order of the
// queue, the priorities, the cached prefixes, the deadlines and the lengths all place it before
// `sequence`, and if it can meet its own deadline. The count is too high if a counted sequence is
// cancelled. Counts at most kCountedMax sequences. A prefix that several sequences share counts
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
  const int32_t tenant = sequence.group->standing.tenant;
  for (const Sequence* prompt : running_) {
    if (prompt->state != SequenceState::kRunning || prompt->num_missing() <= 1) continue;
    if (prompt->group->standing.tenant != tenant || num_counted == kCountedMax) continue;
    if (policy_->ComparePrompts(prompt->standing, sequence.standing) > 0) continue;
    const int32_t num_left = NumToCompute(*prompt);
    if (!IsComputedFirst(*prompt, num_left, sequence, num_missing)) continue;
    ahead.num_tokens += num_own(*prompt, num_left);
    counted[num_counted++] = prompt;
  }
  for (Sequence* other : waiting_.of(tenant).window()) {
    if (num_counted == kCountedMax || !IsBefore(*other, sequence)) break;
    const int32_t num_left = NumMissingAtMost(*other);
    if (!StartsBefore(*other, num_left, sequence, num_missing)) continue;
    const int64_t num_tokens = ahead.num_tokens + num_own(*other, num_left);
    // A sequence that cannot be in time will be refused.
    const Duration left = other->standing.first_token_by - now_;
    if (TimeAhead(num_tokens) > left || LacksSlots(*other, ahead.num_sequences, left)) continue;
    ahead.num_tokens = num_tokens;
    counted[num_counted++] = other;
    ++ahead.num_sequences;
  }
  ahead.num_tokens += num_own(sequence, num_missing);
  return ahead;
}

// Returns true if the waiting sequence `a` certainly starts before `b`, which is later in the queue
// of the same tenant. `a` must compute `left_a` tokens, and `b` must compute `left_b` tokens.
bool Scheduler::StartsBefore(const Sequence& a, int32_t left_a, const Sequence& b,
                             int32_t left_b) const {
  if (a.standing.priority < b.standing.priority) return false;
  if (a.standing.first_token_by > b.standing.first_token_by) return false;
  if (left_a > std::max(left_b, options_.long_prefill_tokens)) return false;
  if (RiskTime(a, left_a) > RiskTime(b, left_b)) return false;
  return IsAtRisk(a, left_a) || a.match.num_tokens >= b.match.num_tokens;
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
  return sequence.num_output() == 0 && RiskTime(sequence, num_missing) < now_;
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
    const bool is_first = IsComputedFirst(*prompt, num_left, sequence, num_missing);
    if (num_left > 1 && is_first) num_ahead += num_left;
  }
  return left < PromptTime(sequence, num_missing + num_ahead, kRefusalRatio);
}

}  // namespace incipit
