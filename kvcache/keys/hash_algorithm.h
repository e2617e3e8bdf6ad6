// The hash functions for block keys, and their names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/enum_names.h"

namespace incipit {

enum class HashAlgorithm : uint8_t {
  kSha256,      // sha256; the hashed message is in Incipit's own format (not CBOR)
  kXxh3,        // XXH3 with 128 bits, not cryptographic; Incipit's own message format (not CBOR)
  kSha256Cbor,  // sha256; the hashed message is CBOR, as in other inference engines
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

// Returns true if blocks with different contents may have equal keys. Lookups must then also
// compare the contents. XXH3 digests may collide. CBOR messages are equal, for example, if one
// block has the adapter "a" and another block has the salt "a".
constexpr bool NeedsVerification(HashAlgorithm algorithm) {
  return algorithm != HashAlgorithm::kSha256;
}

}  // namespace incipit
