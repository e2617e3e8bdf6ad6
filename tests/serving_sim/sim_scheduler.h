// The interface between the simulation with time and a scheduler: Incipit's scheduler, or one of
// the baselines.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/enum_names.h"
#include "base/types.h"
#include "tests/serving_sim/device_model.h"
#include "tests/serving_sim/load.h"

namespace incipit::serving_sim {

// The tokens of one request that a step computes. `request` is an index in Load::requests.
struct SimItem {
  int32_t request = 0;
  int32_t first_token = 0, num_tokens = 0;
  // True: the step computes the latest output token of the request and samples the next token.
  bool is_decoding = false;
};

struct SimStep {
  std::vector<SimItem> items;
  int32_t num_preemptions = 0;

  void Clear() {
    items.clear();
    num_preemptions = 0;
  }
};

// The events of a step: admissions, sampled tokens and ends of requests.
struct SimEvents {
  struct Admission {
    int32_t request = 0;
    int32_t cached_tokens = 0;  // number of prompt tokens that were found in the cache
  };
  struct End {
    int32_t request = 0;
    FinishReason reason{};
  };
  // First admissions of requests. An admission after a preemption is not included.
  std::vector<Admission> admissions;
  std::vector<int32_t> tokens;  // requests for which the step sampled a token
  std::vector<End> ended;

  void Clear() {
    admissions.clear();
    tokens.clear();
    ended.clear();
  }
};

class SimScheduler {
 public:
  virtual ~SimScheduler() = default;

  // Adds the request load.requests[request]. `request` was not added before.
  virtual void Add(int32_t request) = 0;
  // Sets `step` to the next step. An empty step means that no token is left to compute, or that a
  // planned step must be committed first. `now` does not decrease. Appends to `events`.
  virtual void Plan(Time now, SimStep& step, SimEvents& events) = 0;
  // Commits the oldest step that is planned and not committed. The device has computed the step in
  // `duration`. Appends to `events`.
  virtual void Commit(Duration duration, SimEvents& events) = 0;
  // Maximum number of steps that are planned and not committed.
  virtual int32_t steps_in_flight_max() const { return 1; }
};

enum class SchedulerKind : uint8_t { kOurs, kFcfs, kFcfsChunked, kLongestPrefix };

inline constexpr std::array<EnumName<SchedulerKind>, 4> kSchedulerNames = {{
    {SchedulerKind::kOurs, "ours"},
    {SchedulerKind::kFcfs, "fcfs"},
    {SchedulerKind::kFcfsChunked, "fcfs_chunked"},
    {SchedulerKind::kLongestPrefix, "lpm"},
}};

// Returns a scheduler for `load` with an empty cache. `load` outlives the scheduler.
// `steps_in_flight` is 1 or 2; the baselines always use 1.
std::unique_ptr<SimScheduler> MakeScheduler(SchedulerKind kind, const DeviceModel& device,
                                            const Load& load, int32_t steps_in_flight);

}  // namespace incipit::serving_sim
