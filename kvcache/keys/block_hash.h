// Keys of cache blocks. A key is a hash of all tokens of a sequence up to the end of the block, and
// of the tenant, cache salt, adapter and images of the request. With the hash algorithm `sha256`,
// blocks with equal keys have equal contents.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash/sha256.h"
#include "base/types.h"
#include "kvcache/keys/block_message.h"
#include "kvcache/keys/extra_keys.h"
#include "kvcache/keys/hash_algorithm.h"
#include "kvcache/sequence_tokens.h"

namespace incipit {

// The key of a block: one digest of 32 bytes (SHA-256), or two digests of 16 bytes (XXH3): the
// digest of the block, then the digest of the previous block.
struct BlockHash {
  std::array<uint8_t, 32> bytes{};

  friend bool operator==(const BlockHash&, const BlockHash&) = default;
  // Returns the first 8 bytes of the key, a hash value for hash tables.
  uint64_t prefix() const {
    uint64_t value = 0;
    std::memcpy(&value, bytes.data(), sizeof(value));
    return value;
  }
};

// The inputs for the block keys of one sequence, except the tokens.
struct ChainRoot {
  // For the first block of the sequence: value that is hashed in place of the key of a previous
  // block.
  BlockHash parent{};
  // SHA-256 digest of the hash seed, tenant, salt and adapter of the sequence, even if block keys
  // are XXH3 digests.
  std::array<uint8_t, 32> digest{};
  // Tenant, salt and adapter of the sequence. Set only if the hashed bytes are CBOR (kSha256Cbor
  // and kXxh3Cbor).
  CacheNamespace cache_namespace{};
  std::vector<MediaSpan> media{};
  // True if the sequence has no salt, no adapter and no other tenant than kDefaultTenant.
  bool is_default_namespace = false;

  bool has_extras() const {
    return !media.empty() || cache_namespace.tenant || !cache_namespace.salt.empty() ||
           cache_namespace.adapter;
  }
};

// Returns the tenant and the salt as a CacheNamespace without an adapter. `tenant` is std::nullopt
// if all tenants share cached blocks.
CacheNamespace MakeCacheNamespace(std::optional<std::string_view> tenant, std::string_view salt);

// Returns 0 if `tenant` is absent, and otherwise a 64-bit hash of the tenant name, which is not 0.
uint64_t TenantDigest(std::optional<std::string_view> tenant);

struct BlockHasherOptions {
  int32_t block_size = 16;  // number of tokens per block, 1 to 256
  HashAlgorithm algorithm = HashAlgorithm::kSha256;
  std::string seed{};
};

inline constexpr int32_t kDigestBitsMax = 256;

// Computes the keys of the blocks of a sequence. The key of a block is a hash of the key of the
// previous block, the tokens of the block, and other inputs such as images. block_message.h
// describes the hashed bytes.
//
// A BlockHasher is immutable and therefore thread-safe.
class BlockHasher {
 public:
  // Creates a hasher. Tests pass a small `digest_bits` to cause hash collisions: all bits of each
  // digest except the first `digest_bits` bits are set to zero. REQUIRES: options.block_size is 1
  // to kBlockSizeMax, and `digest_bits` is 0 to kDigestBitsMax.
  explicit BlockHasher(BlockHasherOptions options, int32_t digest_bits = kDigestBitsMax);

  int32_t block_size() const { return options_.block_size; }
  HashAlgorithm algorithm() const { return options_.algorithm; }
  // Returns the digest of the block with the key `hash`: 32 bytes (SHA-256) or 16 bytes (XXH3).
  std::span<const uint8_t> DigestOf(const BlockHash& hash) const {
    return std::span(hash.bytes).first(DigestBytes(options_.algorithm));
  }

  // Returns the inputs, other than tokens, for the block keys of a sequence. `media` are the images
  // and other media in the prompt. REQUIRES: `media` are sorted by position, do not overlap, and
  // have at least one token each.
  ChainRoot Root(const CacheNamespace& cache_namespace, std::vector<MediaSpan> media = {}) const;

  // Returns the key of the block with the tokens `tokens`. `parent` is the key of the previous
  // block. Allocates no memory. REQUIRES: the size of `tokens` is block_size().
  BlockHash Next(const BlockHash& parent, std::span<const TokenId> tokens,
                 std::span<const ExtraKey> extras = {}) const;

  // Returns the key of block number `index` of a sequence. REQUIRES: `parent` is the key of block
  // number `index` - 1, or root.parent if `index` is 0.
  BlockHash KeyAt(const ChainRoot& root, size_t index, const BlockHash& parent,
                  std::span<const TokenId> tokens) const;

  // Appends the missing keys of full blocks of `tokens` to `hashes`. REQUIRES: `hashes` has the
  // keys of the first hashes.size() blocks.
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
  // The last part of the bytes that are hashed for the key of a block without images: lengths and,
  // for kSha256, the padding of SHA-256. Not used for kSha256Cbor and kXxh3Cbor.
  std::array<uint8_t, sizeof(MessageTrailer) + 2 * kSha256ChunkBytes> tail_{};
  size_t tail_bytes_ = 0;
};

}  // namespace incipit
