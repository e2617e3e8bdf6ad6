// Fills the numbers of sequences and cache blocks in StepStats and in EngineLoad.
#pragma once

#include "kvcache/kv_cache_manager.h"
#include "scheduler/scheduler.h"

namespace incipit {

// Sets the numbers of sequences and cache blocks of `figures`, a StepStats or an EngineLoad.
template <class Figures>
void FillOccupancy(const Scheduler& scheduler, const KvCacheManager& cache, Figures& figures) {
  figures.num_running = scheduler.num_running();
  figures.num_waiting = scheduler.num_waiting();
  figures.num_blocks = cache.num_blocks();
  figures.num_used_blocks = cache.num_used();
  figures.num_cached_blocks = cache.num_cached();
  figures.num_retained_blocks = cache.pool().num_retained();
}

}  // namespace incipit
