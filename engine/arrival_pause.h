// The pause between two steps (batches), in which the engine may wait for new requests.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace incipit {

// Decides how long the engine waits for new requests before a step.
//
// Many clients send their next request as soon as a request has ended. If the engine begins the
// next step immediately, the new request arrives a few milliseconds too late, and waits for the
// whole step. So a pause begins after each step in which requests ended. If n requests ended, the
// pause ends when n new requests have arrived, and at end() at the latest. The maximum duration of
// a pause is the shorter of two times: `longest`, and a quarter of the duration of a step that only
// decodes.
//
// A pause in which the engine waits delays the running sequences. So the engine waits only if
// recent pauses were useful: `share_` is the recent share of ended requests that were followed by a
// new request within the pause. If `share_` is below kShareMin, the engine waits only in every
// kTryEvery-th pause, to measure whether clients send their next requests in time again.
//
// Not thread-safe. No function allocates memory.
class ArrivalPause {
 public:
  static constexpr double kShareMin = 0.5;
  // Weight of the latest pause in `share_`.
  static constexpr double kWeight = 0.25;
  static constexpr int32_t kTryEvery = 16;
  // Maximum duration of a pause, as a share of a step that only decodes.
  static constexpr double kStepShareMax = 0.25;

  // `longest`: maximum duration of a pause; 0: the engine never waits.
  explicit ArrivalPause(Duration longest) : longest_(longest) {}

  // Begins a pause. `num_ended` requests ended in a step that was complete at `now`. `decode_step`
  // is the predicted duration of a step that only decodes; 0: unknown. REQUIRES: `num_ended` is
  // positive.
  void Begin(int32_t num_ended, Duration decode_step, Time now);
  // Counts a new request that arrives at `now`.
  void AddArrival(Time now) { num_arrived_ += now <= end_; }

  // Returns true if the engine must wait for new requests at `now`.
  bool IsWaiting(Time now) const;
  // Time at which the pause ends at the latest.
  Time end() const { return end_; }

 private:
  const Duration longest_;
  Time end_{};
  bool is_used_ = false;     // false: the engine does not wait in this pause
  int32_t num_ended_ = 0;    // requests that ended in the step before the pause
  int32_t num_arrived_ = 0;  // requests that have arrived since the step, until end_
  int32_t num_skipped_ = 0;  // pauses since the latest pause in which the engine waited
  double share_ = 1;
};

}  // namespace incipit
