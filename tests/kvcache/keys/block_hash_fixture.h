// Fixture for tests that run with every hash algorithm.
#pragma once

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "kvcache/keys/block_hash.h"

namespace incipit {

inline std::vector<TokenId> Range(TokenId first, int32_t count) {
  std::vector<TokenId> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

class BlockHashTest : public testing::TestWithParam<HashAlgorithm> {
 protected:
  static BlockHasher Hasher(int32_t block_size = 4, int32_t digest_bits = 256) {
    return BlockHasher({.block_size = block_size, .algorithm = GetParam()}, digest_bits);
  }
  static std::vector<BlockHash> Chain(const BlockHasher& hasher, std::span<const TokenId> tokens,
                                      const CacheNamespace& names = {},
                                      std::vector<MediaSpan> media = {}) {
    std::vector<BlockHash> hashes;
    hasher.Extend(hasher.Root(names, std::move(media)), tokens, hashes);
    return hashes;
  }
};

}  // namespace incipit
