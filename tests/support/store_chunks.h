// Copies the chunks that a commit reported to a tier, as the engine does.
#pragma once

#include <span>

#include "base/check.h"
#include "engine/model_runner.h"
#include "kvcache/tiers/prefix_tier.h"
#include "scheduler/scheduler.h"

namespace incipit {

// Returns the number of chunks that the tier accepted.
inline int64_t StoreChunks(const SchedulerEvents& events, ModelRunner& runner, PrefixTier& tier) {
  int64_t num_stored = 0;
  const ChunkShape& shape = tier.shape();
  for (const ChunkEvent& event : events.chunks) {
    const Sequence& sequence = *event.sequence;
    const BlockTable& table = sequence.table;
    const auto ticket = tier.BeginStore(
        IdentityOf(shape, table.root, table.tenant, table.hashes, sequence.tokens(), event.chunk));
    if (!ticket) continue;
    const auto num_blocks = static_cast<size_t>(shape.blocks_per_chunk);
    const auto blocks = std::span(events.chunk_blocks).subspan(event.blocks_begin, num_blocks);
    INCIPIT_CHECK(runner.ReadBlocks(blocks, tier.bytes_of(*ticket)).ok());
    tier.FinishStore(*ticket);
    ++num_stored;
  }
  return num_stored;
}

}  // namespace incipit
