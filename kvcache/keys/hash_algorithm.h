// The hash functions for the keys of cache blocks, and their names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/enum_names.h"

namespace incipit {

enum class HashAlgorithm : uint8_t {
  kSha256,  // SHA-256; the block's inputs are encoded in Incipit's own binary format
  // XXH3 with 128 bits, not cryptographic; the block's inputs are encoded in Incipit's own binary
  // format
  kXxh3,
  kSha256Cbor,  // SHA-256; the block's inputs are encoded in CBOR, as in other inference engines
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

// Returns the SHA-256 algorithm that encodes the inputs of a block key in the same format as
// `algorithm`.
constexpr HashAlgorithm WithSha256(HashAlgorithm algorithm) {
  return IsCbor(algorithm) ? HashAlgorithm::kSha256Cbor : HashAlgorithm::kSha256;
}

// Returns true if blocks with different contents may have equal keys. Lookups must then compare the
// contents too.
constexpr bool NeedsVerification(HashAlgorithm algorithm) {
  return algorithm != HashAlgorithm::kSha256;
}

}  // namespace incipit
