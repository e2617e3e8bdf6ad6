#include "engine/step_stats.h"

#include "engine/occupancy.h"

namespace incipit {

void FillTokens(const StepPlan& plan, StepStats& stats) {
  stats.num_tokens = plan.num_tokens;
  stats.num_decode_tokens = plan.num_decode_tokens;
  stats.num_prefill_tokens = plan.num_tokens - plan.num_decode_tokens;
}

void FillState(Scheduler& scheduler, KvCacheManager& cache, StepStats& stats) {
  FillOccupancy(scheduler, cache, stats);
  stats.cache = cache.TakeStats();
  stats.scheduler = scheduler.TakeCounts();
}

}  // namespace incipit
