// Recomputes the block keys of KeyVectors and prints them, for a comparison between processes.
#pragma once

#include <string>
#include <vector>

#include "kvcache/keys/block_hash.h"
#include "tests/kvcache/keys/block_key_vectors.h"
#include "tests/kvcache/keys/hex.h"

namespace incipit {

inline TokenId VectorToken(int64_t index) {
  constexpr TokenId kEdges[] = {0, 23, 24, 255, 256, 65535, 65536, 0x7fffffff};
  if (index < 8) return kEdges[index];
  return static_cast<TokenId>((index * 2654435761 & 0x7fffffff) >> (7 * (index % 5)));
}

inline std::vector<TokenId> VectorTokens(size_t count) {
  std::vector<TokenId> tokens;
  for (size_t i = 0; i < count; ++i) tokens.push_back(VectorToken(static_cast<int64_t>(i)));
  return tokens;
}

inline CacheNamespace NamespaceOf(const KeyVector& vector) {
  CacheNamespace names = {.tenant = vector.tenant, .salt = vector.salt};
  if (vector.adapter) {
    const std::string content = "content of " + *vector.adapter;
    names.adapter =
        AdapterKey{*vector.adapter,
                   Sha256({reinterpret_cast<const uint8_t*>(content.data()), content.size()})};
  }
  return names;
}

inline BlockHasher HasherOf(const KeyVector& vector, HashAlgorithm algorithm) {
  return BlockHasher(
      {.block_size = vector.block_size, .algorithm = algorithm, .seed = vector.seed});
}

inline const std::vector<std::string>& ExpectedOf(const KeyVector& vector,
                                                  HashAlgorithm algorithm) {
  if (algorithm == HashAlgorithm::kSha256) return vector.sha256;
  if (algorithm == HashAlgorithm::kXxh3) return vector.xxh3;
  return algorithm == HashAlgorithm::kSha256Cbor ? vector.sha256_cbor : vector.xxh3_cbor;
}

inline std::vector<BlockHash> ChainOf(const KeyVector& vector, HashAlgorithm algorithm) {
  const BlockHasher hasher = HasherOf(vector, algorithm);
  const size_t num_blocks = ExpectedOf(vector, algorithm).size();
  std::vector<BlockHash> hashes;
  hasher.Extend(hasher.Root(NamespaceOf(vector), vector.media),
                VectorTokens(num_blocks * static_cast<size_t>(vector.block_size)), hashes);
  return hashes;
}

inline constexpr HashAlgorithm kEveryAlgorithm[] = {HashAlgorithm::kSha256, HashAlgorithm::kXxh3,
                                                    HashAlgorithm::kSha256Cbor,
                                                    HashAlgorithm::kXxh3Cbor};

// Returns one line for each chain and algorithm: the algorithm, the name of the case and the keys.
inline std::string ChainsAsText() {
  std::string text;
  for (const KeyVector& vector : KeyVectors()) {
    for (const HashAlgorithm algorithm : kEveryAlgorithm) {
      text += std::string(NameOf(algorithm)) + " " + vector.name;
      for (const BlockHash& hash : ChainOf(vector, algorithm)) text += " " + Hex(hash.bytes);
      text += "\n";
    }
  }
  return text;
}

}  // namespace incipit
