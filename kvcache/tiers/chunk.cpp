#include "kvcache/tiers/chunk.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace incipit {

ChunkShape MakeChunkShape(int32_t block_size, size_t block_bytes) {
  INCIPIT_CHECK(block_size > 0 && std::has_single_bit(static_cast<uint32_t>(block_size)));
  INCIPIT_CHECK(block_bytes > 0);
  const int32_t blocks_max = std::max(1, kChunkTokensMax / block_size);
  ChunkShape shape = {.block_size = block_size, .blocks_per_chunk = 1, .block_bytes = block_bytes};
  while (shape.blocks_per_chunk < blocks_max && shape.num_bytes() < kChunkBytesMin) {
    shape.blocks_per_chunk *= 2;
  }
  return shape;
}

ChunkIdentity IdentityOf(const ChunkShape& shape, const ChainRoot& root, uint64_t tenant,
                         std::span<const BlockHash> hashes, const SequenceTokens& tokens,
                         int32_t index) {
  const auto first_block = static_cast<size_t>(index * shape.blocks_per_chunk);
  const size_t last_block = shape.last_block(index);
  const auto num_tokens = static_cast<size_t>(shape.num_tokens());
  const size_t first_token = static_cast<size_t>(index) * num_tokens;
  INCIPIT_CHECK(last_block < hashes.size() && first_token + num_tokens <= tokens.size());
  return {.key = hashes[last_block],
          .parent = first_block == 0 ? root.parent : hashes[first_block - 1],
          .first_token = static_cast<int64_t>(first_token),
          .namespace_digest = root.digest,
          .tenant = tenant,
          .tokens = tokens.subspan(first_token, num_tokens)};
}

}  // namespace incipit
