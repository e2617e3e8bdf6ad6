#include "engine/store_rest.h"

#include <optional>
#include <span>

namespace incipit {

StoredChunks StoreRest(const CachedChunks& chunks, ModelRunner& runner, PrefixTier& tier,
                       absl::FunctionRef<bool()> is_late, absl::FunctionRef<void()> await_room) {
  StoredChunks result;
  const auto per_chunk = static_cast<size_t>(tier.shape().blocks_per_chunk);
  for (const CachedChunks::Chunk& chunk : chunks.chunks) {
    const ChunkIdentity& identity = chunk.identity;
    while (tier.RoomFor(identity.key) == StoreRoom::kLater && !is_late()) await_room();
    if (is_late()) return result;
    if (tier.RoomFor(identity.key) != StoreRoom::kNow) continue;
    if (identity.first_token > 0 && !tier.Touch(identity.parent, {})) continue;
    const std::optional<StoreTicket> ticket = tier.BeginStore(identity, {});
    if (!ticket) continue;
    const auto blocks = std::span(chunks.blocks).subspan(chunk.blocks_begin, per_chunk);
    CopyChunk(blocks, *ticket, runner, tier, result);
  }
  return result;
}

}  // namespace incipit
