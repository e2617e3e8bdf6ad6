// Faults that the simulation with time injects: failed steps, logits that are not finite, and
// cancelled requests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tests/serving_sim/load.h"
#include "tests/serving_sim/random.h"
#include "tests/serving_sim/sim_scheduler.h"

namespace incipit::serving_sim {

struct FaultOptions {
  uint64_t seed = 1;
  double abort = 0;   // probability that a step fails after its whole time
  double poison = 0;  // probability that one row of logits of a step is not finite
  double cancel = 0;  // probability that a request is cancelled
  // Tenant whose requests are cancelled, always before their first output token; 0: all tenants,
  // at any moment.
  uint64_t cancelling_tenant = 0;
};

// Numbers of injected faults.
struct FaultCounts {
  int64_t aborted_steps = 0;  // also the second step in flight, if the first step fails
  int64_t poisoned_rows = 0;
  // Cancelled requests and choices, by the progress of the request: before its first step, before
  // its first output token, and after its first output token.
  int64_t cancelled_waiting = 0, cancelled_prefill = 0, cancelled_decoding = 0;
  int64_t cancelled_choices = 0;  // cancels of one choice of several, included in the counts above
  int64_t cancelled_in_flight = 0;  // cancels while a step was in flight, included as well
  // Time of the first fault in seconds; kNever: no fault.
  double first_fault_s = kNever;

  FaultCounts& operator+=(const FaultCounts& other);
};

// What Faults must know about a request to choose the time of its cancel.
struct CancelProgress {
  bool has_started = false;  // a step that computes a token of the request is planned
  int32_t num_output = 0;    // output tokens of all choices
};

// Chooses faults at random. Equal seeds choose equal faults for equal runs.
class Faults {
 public:
  Faults(const FaultOptions& options, const Load& load);

  // Returns whether the step that is planned now will fail.
  bool AbortsStep();
  // Returns the index of an item of `step` whose logits are not finite, if there is one.
  std::optional<size_t> PoisonedItem(const SimStep& step);

  struct Cancel {
    int32_t request = 0;
    int32_t choice = -1;  // -1: all choices
  };
  // Records that a request has arrived or ended.
  void OnArrival(int32_t request);
  // Returns the cancels that are due at time `now`, in seconds. `progress_of` returns the
  // CancelProgress of a request, or std::nullopt if the request has ended.
  template <typename ProgressOf>
  std::vector<Cancel> TakeCancels(double now, const ProgressOf& progress_of) {
    std::vector<Cancel> due;
    std::erase_if(active_, [&](const PlannedCancel& planned) {
      const std::optional<CancelProgress> progress = progress_of(planned.cancel.request);
      if (!progress) return true;
      if (!IsDue(planned, now, *progress)) return false;
      due.push_back(planned.cancel);
      return true;
    });
    return due;
  }

 private:
  enum class Moment : uint8_t { kWaiting, kPrefill, kDecoding };
  struct PlannedCancel {
    Cancel cancel;
    Moment moment = Moment::kWaiting;
    double not_before = 0;   // in seconds
    int32_t num_output = 0;  // kDecoding: number of output tokens before the cancel
  };
  bool IsDue(const PlannedCancel& planned, double now, const CancelProgress& progress);

  FaultOptions options_;
  Random steps_, rows_, times_;
  std::vector<std::optional<PlannedCancel>> planned_;  // one for each request of the load
  std::vector<PlannedCancel> active_;                  // cancels of requests that have arrived
};

}  // namespace incipit::serving_sim
