// Incipit's scheduler in the simulation with time.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "kvcache/kv_cache_manager.h"
#include "scheduler/scheduler.h"
#include "tests/serving_sim/sim_scheduler.h"

namespace incipit::serving_sim {

// Returns the options of Incipit's scheduler: the defaults of the server on `device`. This function
// is the only one that sets options of the scheduler.
SchedulerOptions MakeOwnOptions(const DeviceModel& device, int32_t steps_in_flight,
                                SchedulingKind scheduling = SchedulingKind::kFair);

// Returns the options of the cache of every scheduler: the defaults of the server.
KvCacheOptions MakeCacheOptions(const DeviceModel& device);

// Drives incipit::Scheduler through its public functions.
class OwnScheduler : public SimScheduler {
 public:
  OwnScheduler(const DeviceModel& device, const Load& load, int32_t steps_in_flight,
               SchedulingKind scheduling = SchedulingKind::kFair);

  void Add(int32_t request) override;
  void Plan(Time now, SimStep& step, SimEvents& events) override;
  void Commit(Duration duration, SimEvents& events) override;
  int32_t steps_in_flight_max() const override { return options_.steps_in_flight_max; }
  void Abort(SimEvents& events) override;
  void Poison(size_t item) override { poisoned_item_ = item; }
  bool Cancel(int32_t request, int32_t choice, SimEvents& events) override;

  const SchedulerOptions& options() const { return options_; }
  const Scheduler& scheduler() const { return scheduler_; }
  const KvCacheManager& cache() const { return cache_; }

 private:
  void TakeEvents(SimEvents& events);

  const Load& load_;
  SchedulerOptions options_;
  KvCacheManager cache_;
  Scheduler scheduler_;
  std::array<StepPlan, kStepsInFlightMax> plans_;
  // The steps in flight are `num_planned_` elements of the ring `plans_`, from index `oldest_` on.
  size_t oldest_ = 0, num_planned_ = 0;
  std::vector<TokenId> tokens_;
  std::vector<RowStatus> status_;
  std::vector<std::unique_ptr<SequenceGroup>> ended_;
  // Index of the item of the oldest step in flight whose logits are not finite.
  std::optional<size_t> poisoned_item_;
};

}  // namespace incipit::serving_sim
