// Runs a load on a scheduler and a device model, in simulated time.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/serving_sim/device_model.h"
#include "tests/serving_sim/faults.h"
#include "tests/serving_sim/load.h"
#include "tests/serving_sim/service_log.h"
#include "tests/serving_sim/sim_scheduler.h"

namespace incipit::serving_sim {

// The time between two output tokens of a request.
struct TokenGap {
  float seconds = 0;
  // `seconds` divided by the time of a step that decodes one token of each sequence that has an
  // output token and has not ended.
  float ratio = 0;
};

// The history of one request. All times are in seconds; -1: the event has not happened. `gaps` and
// `last_token` describe the first choice only.
struct RequestRecord {
  int64_t arrival_step = 0;  // number of steps that were planned before the request was added
  // Number of the first step that computes a token of the request. A step that failed does not
  // count.
  int64_t first_step = -1;
  double first_token = -1;
  double last_token = -1;
  double end = -1;
  int32_t cached_tokens = 0;
  int32_t num_output = 0;    // output tokens of all choices
  int32_t num_ended = 0;     // number of choices that have ended
  bool is_complete = false;  // true: the request has all its output tokens
  std::vector<TokenGap> gaps;
};

struct RunRecord {
  std::vector<RequestRecord> requests;  // one for each request of the load
  ServiceLog service;
  FaultCounts faults;
  int64_t num_steps = 0;
  int64_t prompt_tokens = 0;  // computed prompt tokens of all steps
  int64_t step_tokens = 0;    // computed prompt and output tokens of all steps
  int64_t num_preemptions = 0;
  double busy_s = 0;  // sum of the times of all steps
  double end_s = 0;   // time at which the last request has ended
};

struct RunOptions {
  // The time of each step is the time of the device model times a random factor. `noise` is the
  // standard deviation of the logarithm of this factor; 0: no noise.
  double noise = 0;
  uint64_t seed = 1;
  FaultOptions faults{};
};

// Is called at the events of a run, in their order. All times are in seconds.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  virtual void OnArrival(int32_t request, double now) = 0;
  virtual void OnPlan(const SimStep& step, double now) = 0;
  // The oldest step in flight is committed next, or failed and was aborted.
  virtual void OnStepEnd(const SimStep& step, bool failed, double now) = 0;
  // Item number `item` of the step that is committed next has logits that are not finite.
  virtual void OnPoison(const SimStep& step, size_t item) = 0;
  // A cancel was requested. `choice` is -1 for all choices. `was_live` is the scheduler's answer.
  virtual void OnCancel(int32_t request, int32_t choice, bool was_live) = 0;
  virtual void OnEvents(const SimEvents& events, double now) = 0;
};

// Runs `load` until all requests have ended. A request is added at the first point of time, at or
// after its arrival, at which the scheduler plans. The scheduler plans when a step ends or, if the
// device is idle, when a request arrives.
//
// A step that fails takes its whole time. If the older of two steps in flight fails, the run waits
// for the newer step and aborts both steps, as the engine does. Requests are cancelled after each
// plan and after each end of a step. `observer` may be nullptr.
RunRecord RunLoad(const DeviceModel& device, const Load& load, SimScheduler& scheduler,
                  const RunOptions& options = {}, RunObserver* observer = nullptr);

}  // namespace incipit::serving_sim
