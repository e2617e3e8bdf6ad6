// Statistics of one step of the engine.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "kvcache/kv_cache_manager.h"
#include "scheduler/scheduler.h"

namespace incipit {

struct StepStats {
  Time begin{};
  // Durations of planning, computing and committing the step. `run` is measured from the launch of
  // the step or from the end of the previous step, whichever is later. `run` includes failed
  // attempts.
  Duration plan{}, run{}, commit{};
  // Time for which the engine waited for new requests before it planned the step (ArrivalPause).
  Duration pause{};
  // Duration of the copies of computed chunks to the staging memory of the tier.
  Duration store{};
  // Duration of the last attempt to compute the step. Earlier failed attempts do not count.
  Duration duration{};
  int32_t num_tokens = 0;  // tokens computed in this step
  // Number of tokens in this step that belong to prompts, or that are computed again after a
  // preemption.
  int32_t num_prefill_tokens = 0;
  int32_t num_decode_tokens = 0;
  int32_t num_running = 0, num_waiting = 0;
  // num_blocks: all blocks. num_used_blocks: blocks that sequences use. num_cached_blocks: free
  // blocks that lookups can find.
  int32_t num_blocks = 0, num_used_blocks = 0, num_cached_blocks = 0;
  // Number of cached blocks with a retention hint (a client's request to keep blocks).
  int32_t num_retained_blocks = 0;
  KvCacheStats cache;         // changes of the cache counters since the previous step
  SchedulerCounts scheduler;  // changes of the scheduler's counters since the previous step
};

// Sets the numbers of tokens of the step that `plan` describes.
void FillTokens(const StepPlan& plan, StepStats& stats);
// Sets the numbers of sequences and blocks, and moves the counters of `scheduler` and `cache` to
// `stats`.
void FillState(Scheduler& scheduler, KvCacheManager& cache, StepStats& stats);

}  // namespace incipit
