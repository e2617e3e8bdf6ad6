// The hash functions for block keys, and their names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/enum_names.h"

namespace incipit {

enum class HashAlgorithm : uint8_t {
  kSha256,      // sha256 of a message in the own format (not CBOR)
  kXxh3,        // XXH3 of a message in the own format (not CBOR); 128 bits, not cryptographic
  kSha256Cbor,  // sha256 of a CBOR message, which has the format of other inference engines
  kXxh3Cbor,
};

inline constexpr EnumName<HashAlgorithm> kHashAlgorithmNames[] = {
    {HashAlgorithm::kSha256, "sha256"},
    {HashAlgorithm::kXxh3, "xxh3_128"},
    {HashAlgorithm::kSha256Cbor, "sha256_cbor"},
    {HashAlgorithm::kXxh3Cbor, "xxh3_128_cbor"},
    {HashAlgorithm::kXxh3, "xxhash"},
    {HashAlgorithm::kXxh3Cbor, "xxhash_cbor"}};
constexpr std::string_view NameOf(HashAlgorithm algorithm) {
  return NameIn(kHashAlgorithmNames, algorithm);
}

constexpr bool IsCbor(HashAlgorithm algorithm) {
  return algorithm == HashAlgorithm::kSha256Cbor || algorithm == HashAlgorithm::kXxh3Cbor;
}
constexpr bool IsSha256(HashAlgorithm algorithm) {
  return algorithm == HashAlgorithm::kSha256 || algorithm == HashAlgorithm::kSha256Cbor;
}
constexpr size_t DigestBytes(HashAlgorithm algorithm) { return IsSha256(algorithm) ? 32 : 16; }

// Returns whether blocks with equal keys may have different contents. If true, a hit must compare
// the tokens, the parents and, for first blocks, the namespaces (ChainRoot::digest). With XXH3, any
// two contents may have equal keys. With CBOR, an adapter name without a salt has the same message
// as an equal salt without an adapter.
constexpr bool NeedsVerification(HashAlgorithm algorithm) {
  return algorithm != HashAlgorithm::kSha256;
}

}  // namespace incipit
