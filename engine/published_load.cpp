#include "engine/published_load.h"

namespace incipit {

void FillLoad(const Scheduler& scheduler, const KvCacheManager& cache, EngineLoad& load) {
  load.num_running = scheduler.num_running();
  load.num_waiting = scheduler.num_waiting();
  load.num_waiting_prompt_tokens = scheduler.num_waiting_prompt_tokens();
  load.num_blocks = cache.num_blocks();
  load.num_used_blocks = cache.num_used();
  load.num_cached_blocks = cache.num_cached();
  load.num_retained_blocks = cache.pool().num_retained();
  load.block_size = cache.block_size();
}

void PublishedWait::Set(const WaitForecast& forecast, int64_t num_waiting,
                        int64_t num_prompt_tokens) {
  forecast_ = forecast;
  num_waiting_ = num_waiting;
  num_prompt_tokens_ = num_prompt_tokens;
  wait_.store(forecast.WaitFor(num_waiting, num_prompt_tokens).value_or(kUnknown).count(),
              std::memory_order_relaxed);
}

}  // namespace incipit
