#include "scheduler/expected_wait.h"

#include "scheduler/scheduler.h"

namespace incipit {
namespace {

// Maximum number of seconds, so that the conversion to Duration does not overflow.
constexpr double kWaitSecondsMax = 1e9;

}  // namespace

std::optional<Duration> WaitForecast::WaitFor(int64_t num_waiting,
                                              int64_t num_prompt_tokens) const {
  if (!is_known) return std::nullopt;
  const double work_s = running_s + token_s * static_cast<double>(num_prompt_tokens);
  const int64_t num_ends = std::max<int64_t>(0, num_waiting + 1 - num_free_slots);
  const double slots_s = slot_s * static_cast<double>(num_ends);
  const double wait_s = std::max({work_s, slots_s, rest_s}) + own_s;
  return FromSeconds(std::min(wait_s, kWaitSecondsMax));
}

// Predicts the number of prompt tokens in each of the next steps, if `num_left` prompt tokens must
// be computed.
int32_t Scheduler::PromptTokensPerStep(const StepShape& decode_part, int64_t num_left) const {
  const int32_t room =
      std::max(1, options_.step_tokens_max - static_cast<int32_t>(decode_part.num_decoding));
  if (decode_part.num_decoding == 0 || is_catching_up_) return room;
  const int32_t num_tokens = RoomWithinTarget(decode_part, 0, room);
  const int32_t num_used = UsedRoom(decode_part, num_tokens);
  const double tokens_per_second = step_times_.PrefillTokensPerSecond(num_used, decode_part);
  const bool catches_up = num_left > num_tokens && IsUrgent(num_left, tokens_per_second);
  return catches_up ? room : num_used;
}

// Returns a forecast of the time to the first token of a new request. Assumes that the next steps
// decode as many sequences as the latest plan.
WaitForecast Scheduler::ForecastWait() const {
  WaitForecast out;
  out.is_known = step_times_.knows_prompts();
  if (!out.is_known) return out;
  const StepShape decode_part = num_running() > 0 ? decode_shape_ : StepShape{};
  int64_t num_running_tokens = 0;
  for (const Sequence* sequence : running_) {
    const bool is_prompt =
        sequence->state == SequenceState::kRunning && sequence->num_missing() > 1;
    if (is_prompt) num_running_tokens += NumToCompute(*sequence);
  }
  const double num_waiting_tokens =
      prompt_lengths_.computed_part() * static_cast<double>(waiting_prompts_.num_tokens);
  const double num_own_tokens = std::max(1.0, prompt_lengths_.mean_computed());
  const int64_t num_left =
      num_running_tokens + static_cast<int64_t>(num_waiting_tokens + num_own_tokens);
  const int32_t per_step = PromptTokensPerStep(decode_part, num_left);
  const auto seconds_for = [&](double num_tokens) {
    const double num_positions = num_tokens * prompt_lengths_.positions_per_token();
    return ToSeconds(step_times_.TimeFor(static_cast<int64_t>(num_tokens),
                                         static_cast<int64_t>(num_positions), per_step,
                                         decode_part));
  };
  const double computed_token_s = seconds_for(per_step) / per_step;
  out.running_s = computed_token_s * static_cast<double>(num_running_tokens);
  for (int32_t i = 0; i < num_in_flight_; ++i) {
    out.running_s += ToSeconds(step_times_.Predict(in_flight_[static_cast<size_t>(i)]->shape));
  }
  out.token_s = computed_token_s * prompt_lengths_.computed_part();
  out.own_s = seconds_for(num_own_tokens);
  out.rest_s = ToSeconds(step_times_.Predict(decode_part)) / 2;
  // If the first waiting sequence (the head) does not fit into the cache, a sequence can start only
  // when another sequence ends. So no more sequences can run than now, even if running_max is
  // larger.
  const int32_t num_slots = head_ != nullptr ? std::max(1, num_running()) : options_.running_max;
  out.slot_s = slot_times_.mean_s() / num_slots;
  out.num_free_slots = std::max(0, num_slots - num_running());
  return out;
}

}  // namespace incipit
