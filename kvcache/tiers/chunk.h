// Chunks: the unit in which a tier stores keys and values outside the device. A chunk is a run of
// consecutive full blocks of one sequence.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/hash/sha256.h"
#include "base/types.h"
#include "kvcache/keys/block_hash.h"
#include "kvcache/sequence_tokens.h"

namespace incipit {

// A chunk has at most kChunkTokensMax tokens, but at least one block.
inline constexpr int32_t kChunkTokensMax = 128;
// The number of blocks of a chunk is the smallest power of two for which the keys and values take
// at least kChunkBytesMin bytes. If such a chunk would have more than kChunkTokensMax tokens, a
// chunk has fewer blocks.
inline constexpr size_t kChunkBytesMin = size_t{1} << 20;

// SHA-256 of everything that determines the bytes of stored keys and values, except the tokens. Two
// servers with equal fingerprints compute equal bytes for equal tokens.
using Fingerprint = Sha256Digest;

// The size of all chunks of one server. Chunk number c of a sequence has the blocks
// [c * blocks_per_chunk, (c + 1) * blocks_per_chunk) of the sequence.
struct ChunkShape {
  int32_t block_size = 16;       // tokens per block
  int32_t blocks_per_chunk = 1;  // a power of two
  size_t block_bytes = 0;        // bytes of the keys and values of one block, in all layers

  int32_t num_tokens() const { return block_size * blocks_per_chunk; }
  size_t num_bytes() const { return block_bytes * static_cast<size_t>(blocks_per_chunk); }
  // Returns the number, in the sequence, of the last block of chunk number `chunk`. The key of this
  // block is the key of the chunk.
  size_t last_block(int32_t chunk) const {
    return static_cast<size_t>((chunk + 1) * blocks_per_chunk - 1);
  }

  friend bool operator==(const ChunkShape&, const ChunkShape&) = default;
};

// Returns the shape of the chunks for blocks of `block_size` tokens and `block_bytes` bytes.
// REQUIRES: `block_size` is a power of two, and `block_bytes` is above 0.
ChunkShape MakeChunkShape(int32_t block_size, size_t block_bytes);

// Identifies the contents of a chunk. A tier stores the identity of a chunk together with the keys
// and values of the chunk. A loaded chunk may be used only if all fields, except `tenant`, equal
// the fields of the wanted chunk.
struct ChunkIdentity {
  BlockHash key;     // key of the last block of the chunk
  BlockHash parent;  // key of the block before the chunk, or ChainRoot::parent for the first chunk
  int64_t first_token = 0;  // position of the first token of the chunk in its sequence
  // ChainRoot::digest of the sequence: a digest of hash seed, tenant, salt and adapter.
  std::array<uint8_t, 32> namespace_digest{};
  uint64_t tenant = 0;    // tenant (TenantDigest) of the request that computed the chunk
  SequenceTokens tokens;  // tokens of the chunk
};

// Returns the identity of chunk number `index` of a sequence. The sequence has the block keys
// `hashes` and the tokens `tokens`. The result refers to the memory of `tokens`. REQUIRES: `hashes`
// and `tokens` contain the whole chunk.
ChunkIdentity IdentityOf(const ChunkShape& shape, const ChainRoot& root, uint64_t tenant,
                         std::span<const BlockHash> hashes, const SequenceTokens& tokens,
                         int32_t index);

}  // namespace incipit
