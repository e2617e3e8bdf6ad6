#include "engine/store_chunks.h"

#include <optional>

namespace incipit {

void CopyChunk(std::span<const BlockId> blocks, StoreTicket ticket, ModelRunner& runner,
               PrefixTier& tier, StoredChunks& result) {
  if (runner.ReadBlocks(blocks, tier.bytes_of(ticket)).ok()) {
    tier.FinishStore(ticket);
    ++result.num_stored;
  } else {
    tier.CancelStore(ticket);
    ++result.num_failed;
  }
}

StoredChunks StoreChunks(const SchedulerEvents& events, ModelRunner& runner, PrefixTier& tier) {
  StoredChunks result;
  const ChunkShape& shape = tier.shape();
  const auto num_blocks = static_cast<size_t>(shape.blocks_per_chunk);
  for (const ChunkEvent& event : events.chunks) {
    const BlockTable& table = event.sequence->table;
    const ChunkIdentity chunk = IdentityOf(shape, table.root, table.tenant, table.hashes,
                                           event.sequence->tokens(), event.chunk);
    const std::optional<StoreTicket> ticket = tier.BeginStore(chunk, table.retention);
    if (!ticket) continue;
    const auto blocks = std::span(events.chunk_blocks).subspan(event.blocks_begin, num_blocks);
    CopyChunk(blocks, *ticket, runner, tier, result);
  }
  return result;
}

}  // namespace incipit
