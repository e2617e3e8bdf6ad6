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

namespace incipit {

// 32 bytes of sha256.
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

// Who may share blocks with whom: chains of different namespaces have no key in common.
struct CacheNamespace {
  std::array<uint8_t, 32> digest{};

  friend bool operator==(const CacheNamespace&, const CacheNamespace&) = default;
};

// `tenant` is absent where tenants are not isolated, which is not the same as an empty name.
CacheNamespace MakeCacheNamespace(std::optional<std::string_view> tenant, std::string_view salt);

enum class HashAlgorithm : uint8_t { kSha256 };

// H_i = sha256(frame, H_{i-1}, tokens_i), where the frame gives type and lengths and H_{-1} is a
// digest of seed and namespace. Immutable, hence safe to use from any thread.
class BlockHasher {
 public:
  // REQUIRES: 1 <= block_size <= 256.
  BlockHasher(int32_t block_size, std::string_view seed);

  int32_t block_size() const { return block_size_; }
  // What the chain of a sequence in `cache_namespace` starts from.
  BlockHash Root(const CacheNamespace& cache_namespace) const;
  // REQUIRES: `tokens` are the block_size tokens of one block.
  BlockHash Next(const BlockHash& parent, std::span<const TokenId> tokens) const;
  // Appends to `hashes` those of the full blocks of `tokens` that it does not have yet.
  void Extend(const BlockHash& root, std::span<const TokenId> tokens,
              std::vector<BlockHash>& hashes) const;

 private:
  int32_t block_size_;
  std::string seed_;
};

}  // namespace incipit
