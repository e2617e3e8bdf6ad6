#include "engine/step_stats.h"

namespace incipit {

void FillTokens(const StepPlan& plan, StepStats& stats) {
  stats.num_tokens = plan.num_tokens;
  stats.num_decode_tokens = plan.num_decode_tokens;
  stats.num_prefill_tokens = plan.num_tokens - plan.num_decode_tokens;
}

void FillState(Scheduler& scheduler, KvCacheManager& cache, StepStats& stats) {
  stats.num_running = scheduler.num_running();
  stats.num_waiting = scheduler.num_waiting();
  stats.num_blocks = cache.num_blocks();
  stats.num_used_blocks = cache.num_used();
  stats.num_cached_blocks = cache.num_cached();
  stats.num_retained_blocks = cache.pool().num_retained();
  stats.cache = cache.TakeStats();
  stats.scheduler = scheduler.TakeCounts();
}

}  // namespace incipit
