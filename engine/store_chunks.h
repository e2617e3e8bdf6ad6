// Copies computed chunks from the device to a tier.
#pragma once

#include <cstdint>
#include <span>

#include "engine/model_runner.h"
#include "kvcache/tiers/prefix_tier.h"
#include "scheduler/scheduler.h"

namespace incipit {

struct StoredChunks {
  int64_t num_stored = 0;  // chunks that the tier accepted and that were copied to staging
  int64_t num_failed = 0;  // chunks that the tier accepted and that `runner` could not read
};

// Copies `blocks`, the blocks of one chunk, to the staging memory that BeginStore reserved as
// `ticket`, and ends the store. Counts the chunk in `result`.
void CopyChunk(std::span<const BlockId> blocks, StoreTicket ticket, ModelRunner& runner,
               PrefixTier& tier, StoredChunks& result);

// Copies the chunks that a commit reported (SchedulerEvents::chunks) from their blocks to the
// staging memory of `tier`. Skips chunks that the tier does not accept. REQUIRES: no step was
// launched since the commit. The blocks may have other contents after the next launch.
StoredChunks StoreChunks(const SchedulerEvents& events, ModelRunner& runner, PrefixTier& tier);

}  // namespace incipit
