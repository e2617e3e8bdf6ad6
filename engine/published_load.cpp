#include "engine/published_load.h"

#include "engine/occupancy.h"

namespace incipit {

void FillLoad(const Scheduler& scheduler, const KvCacheManager& cache, EngineLoad& load) {
  FillOccupancy(scheduler, cache, load);
  load.num_waiting_prompt_tokens = scheduler.num_waiting_prompt_tokens();
  load.block_size = cache.block_size();
  load.scheduler = scheduler.Figures();
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
