// Predicts how long a new request waits for its first token (docs/scheduler.md#the-expected-wait).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/clock.h"

namespace incipit {

// Predicts the time from the arrival of an average request to its first token:
//
//   wait = max(time of earlier prompts, time until a slot is free, rest of the present step)
//          + time of its own prompt
//
// Each running sequence holds one of running_max slots. Earlier prompts are computed while the
// request waits for a slot, so the formula contains the maximum of these times.
struct WaitForecast {
  bool is_known = false;  // false: the model cannot predict the time of prompts yet
  // Time to complete the steps in flight and to compute the prompts of running sequences, in
  // seconds.
  double running_s = 0;
  // Mean time for one prompt token of a waiting request, in seconds. The mean includes cached
  // tokens, which take no time, in the same proportion as in recent prompts.
  double token_s = 0;
  double own_s = 0;  // time to compute a prompt of average length, in seconds
  // Half of the predicted duration of a step without prompt tokens, in seconds. On average, a
  // request arrives in the middle of a step.
  double rest_s = 0;
  // Mean time from the end of one sequence to the next end of any sequence, in seconds, while the
  // maximum number of sequences runs. 0: no sequence has run yet.
  double slot_s = 0;
  // Number of sequences that can start before another sequence ends.
  int32_t num_free_slots = 0;

  // Returns the predicted time from the arrival of a request to its first token. `num_waiting`:
  // number of sequences that wait before the request. `num_prompt_tokens`: sum of the prompt tokens
  // of these sequences. Returns nullopt if the time is not known yet.
  std::optional<Duration> WaitFor(int64_t num_waiting, int64_t num_prompt_tokens) const;
};

// Estimates the mean time for which a sequence runs (holds a slot). The estimate is the total
// running time of all sequences so far, ended or not, divided by the number of ended sequences. For
// exponentially distributed times, this is the maximum likelihood estimate with censored
// observations (Cox, Oakes, "Analysis of Survival Data", 1984). Each end of a sequence reduces the
// weight of all earlier steps and ends by 2 %.
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

  // Returns the mean time for which a sequence runs, in seconds. If no sequence has ended yet,
  // returns the total running time of all sequences so far.
  double mean_s() const { return held_s_ / std::max(1.0, num_ends_); }
  // Returns the number of sequences that have ended, weighted: at most 50.
  double num_ends() const { return num_ends_; }

 private:
  double held_s_ = 0, num_ends_ = 0;
};

}  // namespace incipit
