// The interface between the simulation with time and a scheduler: Incipit's scheduler, or one of
// the baselines.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/check.h"
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
  int32_t num_samples = 0;  // number of tokens that the step samples; 0 in steps of the baselines
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
  struct Token {
    int32_t request = 0;
    int32_t choice = 0;
  };
  struct End {
    int32_t request = 0;
    int32_t choice = 0;
    FinishReason reason{};
  };
  // First admissions of requests. An admission after a preemption is not included.
  std::vector<Admission> admissions;
  std::vector<Token> tokens;  // choices for which the step sampled a token
  std::vector<End> ended;     // choices that have ended
  // Requests of which all choices have ended. Only Incipit's scheduler reports these requests.
  std::vector<int32_t> ended_requests;

  void Clear() {
    admissions.clear();
    tokens.clear();
    ended.clear();
    ended_requests.clear();
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

  // The functions below inject faults. Only Incipit's scheduler has these functions.

  // Undoes the newest step that is planned and not committed. Appends to `events`.
  virtual void Abort(SimEvents& events);
  // Makes the logits of item number `item` of the oldest step in flight not finite. Takes effect
  // when the step is committed. REQUIRES: the item samples a token.
  virtual void Poison(size_t item);
  // Ends a request, or only one choice if `choice` is at least 0. Returns false if the request or
  // the choice has ended. Appends to `events`.
  virtual bool Cancel(int32_t request, int32_t choice, SimEvents& events);
};

inline void SimScheduler::Abort(SimEvents&) { INCIPIT_CHECK(false); }
inline void SimScheduler::Poison(size_t) { INCIPIT_CHECK(false); }
inline bool SimScheduler::Cancel(int32_t, int32_t, SimEvents&) {
  INCIPIT_CHECK(false);
  return false;
}

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
