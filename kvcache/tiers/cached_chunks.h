// The chunks of cached blocks that a tier stores before the cache ends.
#pragma once

#include <cstddef>
#include <vector>

#include "base/types.h"
#include "kvcache/tiers/chunk.h"

namespace incipit {

// Chunks in descending order of their value for later requests. Each chunk comes after the previous
// chunk of its sequence.
struct CachedChunks {
  struct Chunk {
    ChunkIdentity identity;  // refers to the memory of CachedChunks::tokens
    size_t blocks_begin = 0;
  };

  CachedChunks() = default;
  CachedChunks(CachedChunks&&) = default;
  CachedChunks& operator=(CachedChunks&&) = default;

  std::vector<Chunk> chunks;
  // Blocks of all chunks. Chunk::blocks_begin is the index of the first block of a chunk, and
  // ChunkShape::blocks_per_chunk is the number of its blocks.
  std::vector<BlockId> blocks;
  std::vector<TokenId> tokens;
};

}  // namespace incipit
