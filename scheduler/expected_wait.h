// Predicts how long a new request waits for its first token (docs/scheduler.md#the-expected-wait).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/clock.h"

namespace incipit {

// Predicts the time from the arrival of an average request to its first token. The scheduler makes
// a forecast after a step. The caller passes the present length of the queue:
//
//   wait = max(prompts before the request, time until a slot is free, rest of the present step)
//          + time of its own prompt
//
// The terms of the maximum overlap: prompts are computed while the request waits for a slot.
struct WaitForecast {
  bool is_known = false;  // result of StepTimeModel::knows_prompts
  // Time to complete the steps in flight and the prompts of running sequences, in seconds.
  double running_s = 0;
  // Mean time for one prompt token of a waiting request, in seconds. The mean includes the usual
  // share of cached tokens, which take no time.
  double token_s = 0;
  double own_s = 0;  // time to compute a prompt of average length, in seconds
  // Half of the time of a step that only decodes. On average, a request arrives in the middle of a
  // step.
  double rest_s = 0;
  // Mean time between the ends of two sequences while no slot is free, in seconds. 0: no sequence
  // has run yet.
  double slot_s = 0;
  // Number of sequences that can start before another sequence ends.
  int32_t num_free_slots = 0;

  // Returns the predicted time for a request behind `num_waiting` waiting sequences, whose prompts
  // have `num_prompt_tokens` tokens together. Returns nullopt if the time is not known yet.
  std::optional<Duration> WaitFor(int64_t num_waiting, int64_t num_prompt_tokens) const;
};

// Estimates how long a sequence holds its slot: the total time for which running and ended
// sequences have held slots, divided by the number of ended sequences. For exponentially
// distributed times, the quotient is the maximum likelihood estimate with censored observations
// (Cox, Oakes, "Analysis of Survival Data", 1984). Each end reduces the weight of earlier steps by
// 2 %.
class SlotTimes {
 public:
  // Adds a step that took `duration` while `num_running` sequences held slots.
  void AddStep(int32_t num_running, Duration duration) {
    held_s_ += num_running * ToSeconds(duration);
  }
  void AddEnd() {
    constexpr double kKept = 0.98;
    held_s_ *= kKept;
    num_ends_ = kKept * num_ends_ + 1;
  }

  // Returns the mean time in seconds for which a sequence holds a slot. Before the first end,
  // returns the time for which all sequences have held slots so far.
  double mean_s() const { return held_s_ / std::max(1.0, num_ends_); }

 private:
  double held_s_ = 0, num_ends_ = 0;
};

}  // namespace incipit
