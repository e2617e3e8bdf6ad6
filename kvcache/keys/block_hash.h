// The keys of cache blocks. The key of a block is a digest of the tokens of the block and of all
// previous blocks of the sequence. The digest also covers the seed, the namespace (tenant, salt,
// adapter) and the media (such as images). With sha256, blocks with equal keys therefore have equal
// contents.
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

// The key of a block: the digest of the block (if digests have 32 bytes), or the digest of the
// block and then the digest of the previous block (if digests have 16 bytes). For the first block
// of a sequence, the digest of the seed and the namespace replaces the digest of the previous
// block.
struct BlockHash {
  std::array<uint8_t, 32> bytes{};

  friend bool operator==(const BlockHash&, const BlockHash&) = default;
  // Returns the first 8 bytes of the digest. Hash tables use these bytes as a pseudo-random number.
  uint64_t prefix() const {
    uint64_t value = 0;
    std::memcpy(&value, bytes.data(), sizeof(value));
    return value;
  }
};

// The inputs for the block keys of one sequence, except the tokens. These inputs are the same for
// all blocks of the sequence.
struct ChainRoot {
  BlockHash parent{};  // for the first block: replaces the key of the previous block
  // Sha256 digest of the seed and the namespace, even if the block keys use another hash function.
  std::array<uint8_t, 32> digest{};
  // Namespace of the sequence. Set only for CBOR keys, because CBOR messages contain the names of
  // tenant, salt and adapter.
  CacheNamespace cache_namespace{};
  std::vector<MediaSpan> media{};

  bool has_extras() const {
    return !media.empty() || cache_namespace.tenant || !cache_namespace.salt.empty() ||
           cache_namespace.adapter;
  }
};

// Returns a cache namespace without an adapter. `tenant` is absent if tenants are not isolated. An
// absent tenant is different from an empty tenant name.
CacheNamespace MakeCacheNamespace(std::optional<std::string_view> tenant, std::string_view salt);

// Returns a number for `tenant`: 0 if `tenant` is absent, and otherwise 64 bits of the sha256 of
// the name. Two tenants have the same number with a probability of 2^-64.
uint64_t TenantDigest(std::optional<std::string_view> tenant);

struct BlockHasherOptions {
  int32_t block_size = 16;  // tokens per block, 1 to 256
  HashAlgorithm algorithm = HashAlgorithm::kSha256;
  std::string seed{};
};

inline constexpr int32_t kDigestBitsMax = 256;

// Computes the keys of the blocks of a sequence. The digest of a block is a hash of the digest of
// the previous block, the tokens of the block and its extras (inputs other than tokens, such as
// media).
//
// The hashed messages have Incipit's own format (WriteBlock) or are CBOR (WriteCborBlock). For the
// first block, a digest of the seed and the namespace (WriteRoot) replaces the digest of the
// previous block. In CBOR, this digest does not cover the namespace: each message contains the
// adapter name, and the message of the first block also contains tenant and salt.
//
// A BlockHasher is immutable and therefore thread-safe.
class BlockHasher {
 public:
  // `digest_bits` is the number of bits of each digest that are kept; the other bits become zero.
  // Tests use few bits to make hash collisions frequent. REQUIRES: 1 <= block_size <= kBlockSizeMax
  // and 0 <= `digest_bits` <= kDigestBitsMax.
  explicit BlockHasher(BlockHasherOptions options, int32_t digest_bits = kDigestBitsMax);

  int32_t block_size() const { return options_.block_size; }
  HashAlgorithm algorithm() const { return options_.algorithm; }
  // Returns the digest of the block with the key `hash`. Other inference engines use this digest as
  // the key of the block.
  std::span<const uint8_t> DigestOf(const BlockHash& hash) const {
    return std::span(hash.bytes).first(DigestBytes(options_.algorithm));
  }

  // Returns the inputs, other than tokens, for the block keys of a sequence in `cache_namespace`.
  // REQUIRES: `media` are sorted, do not overlap, and have at least one token each.
  ChainRoot Root(const CacheNamespace& cache_namespace, std::vector<MediaSpan> media = {}) const;

  // Returns the key of the block that follows the block with the key `parent`. Allocates no memory.
  // REQUIRES: `tokens` are the block_size tokens of one block.
  BlockHash Next(const BlockHash& parent, std::span<const TokenId> tokens,
                 std::span<const ExtraKey> extras = {}) const;

  // Returns the key of block `index` of a sequence with the root `root`. `parent` is the key of
  // block `index` - 1, or root.parent if `index` is 0.
  BlockHash KeyAt(const ChainRoot& root, size_t index, const BlockHash& parent,
                  std::span<const TokenId> tokens) const;

  // Appends to `hashes` the keys of the full blocks of `tokens` that `hashes` does not have yet.
  // Allocates memory only if the capacity of `hashes` is too small.
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
  // The last bytes of each hashed message in the own format (not CBOR). They are the same for all
  // blocks without extras (inputs other than tokens). For sha256, these bytes include the padding.
  std::array<uint8_t, sizeof(MessageTrailer) + 2 * kSha256ChunkBytes> tail_{};
  size_t tail_bytes_ = 0;
};

}  // namespace incipit
