// The keys of cached blocks: chains of digests that name everything a block's keys and values
// depend on, so that equal keys mean equal contents, in this process and in any other with the same
// seed.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"
#include "kvcache/keys/block_message.h"
#include "kvcache/keys/extra_keys.h"
#include "kvcache/keys/hash_algorithm.h"
#include "kvcache/keys/sha256.h"
#include "kvcache/sequence_tokens.h"

namespace incipit {

// A block's key: its own digest, and behind one of 16 bytes that of the block before it (or of the
// chain's root), so that whoever compares keys compares the parents too.
struct BlockHash {
  std::array<uint8_t, 32> bytes{};

  friend bool operator==(const BlockHash&, const BlockHash&) = default;
  // The digest's first 8 bytes: as good as random, for tables and tags.
  uint64_t prefix() const {
    uint64_t value = 0;
    std::memcpy(&value, bytes.data(), sizeof(value));
    return value;
  }
};

// What one sequence's chain of keys starts from, and what enters its blocks besides tokens.
struct ChainRoot {
  BlockHash parent{};                // of the first block
  std::array<uint8_t, 32> digest{};  // sha256 of seed and namespace, whatever the algorithm
  CacheNamespace cache_namespace{};  // of a cbor form, else empty: its blocks repeat the names
  std::vector<MediaSpan> media{};

  bool has_extras() const {
    return !media.empty() || cache_namespace.tenant || !cache_namespace.salt.empty() ||
           cache_namespace.adapter;
  }
};

// `tenant` is absent where tenants are not isolated, which is not the same as an empty name.
CacheNamespace MakeCacheNamespace(std::optional<std::string_view> tenant, std::string_view salt);

// A tenant as a number that others do not have, but for one in 2^64; 0 where it is absent.
uint64_t TenantDigest(std::optional<std::string_view> tenant);

struct BlockHasherOptions {
  int32_t block_size = 16;  // tokens; 1 to 256
  HashAlgorithm algorithm = HashAlgorithm::kSha256;
  std::string seed{};
};

inline constexpr int32_t kDigestBitsMax = 256;

// H_i = hash(H_{i-1}, tokens_i, extras_i): see WriteBlock and WriteCborBlock for the bytes. H_{-1}
// is a digest of seed and namespace (WriteRoot); in the cbor forms of the seed alone, and the
// namespace enters the blocks: the adapter's name each, tenant and salt the first. Media enter the
// blocks that they touch. Immutable, hence safe to use from any thread.
class BlockHasher {
 public:
  // Tests of the defence against collisions pass fewer `digest_bits` than a digest has: the first
  // so many of its bits are kept and the others are zero. REQUIRES: 1 <= block_size <=
  // kBlockSizeMax and 0 <= digest_bits <= kDigestBitsMax.
  explicit BlockHasher(BlockHasherOptions options, int32_t digest_bits = kDigestBitsMax);

  int32_t block_size() const { return options_.block_size; }
  HashAlgorithm algorithm() const { return options_.algorithm; }
  // The block's own digest, of which other engines speak.
  std::span<const uint8_t> DigestOf(const BlockHash& hash) const {
    return std::span(hash.bytes).first(DigestBytes(options_.algorithm));
  }

  // What the chain of a sequence in `cache_namespace` starts from. REQUIRES: `media` are sorted,
  // do not overlap and have a token each.
  ChainRoot Root(const CacheNamespace& cache_namespace, std::vector<MediaSpan> media = {}) const;

  // The key of the block after the one with the key `parent`. Allocates nothing.
  // REQUIRES: `tokens` are the block_size tokens of one block.
  BlockHash Next(const BlockHash& parent, std::span<const TokenId> tokens,
                 std::span<const ExtraKey> extras = {}) const;

  // The key of the chain's block `index`, whose parent (or root) has the key `parent`.
  BlockHash KeyAt(const ChainRoot& root, size_t index, const BlockHash& parent,
                  std::span<const TokenId> tokens) const;

  // Appends to `hashes` those of the full blocks of `tokens` that it does not have yet. Allocates
  // nothing but what `hashes` lacks.
  void Extend(const ChainRoot& root, const SequenceTokens& tokens,
              std::vector<BlockHash>& hashes) const;

 private:
  void HashBlocks(const BlockHash& parent, std::span<const TokenId> tokens,
                  std::span<BlockHash> hashes) const;
  void HashBlocksSha256(const BlockHash& parent, std::span<const TokenId> tokens,
                        std::span<BlockHash> hashes) const;
  void HashBlocksXxh3(const BlockHash& parent, std::span<const TokenId> tokens,
                      std::span<BlockHash> hashes) const;
  BlockHash Digest(const BlockHash& parent, ByteSource message) const;
  BlockHash Key(std::span<const uint8_t> digest, const BlockHash& parent) const;
  void Truncate(std::span<uint8_t> digest) const;

  BlockHasherOptions options_;
  int32_t digest_bits_;
  const Sha256Implementation* sha256_;
  // What a message of our own ends with, for sha256 with its padding: all that does not change from
  // block to block.
  std::array<uint8_t, sizeof(MessageTrailer) + 2 * kSha256ChunkBytes> tail_{};
  size_t tail_bytes_ = 0;
};

}  // namespace incipit
