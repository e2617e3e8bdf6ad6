// The functions that make the keys of blocks, and what they are called.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/enum_names.h"

namespace incipit {

enum class HashAlgorithm : uint8_t {
  kSha256,      // of a message of our own
  kXxh3,        // the same message; 128 bits, not cryptographic
  kSha256Cbor,  // of a message that other engines write too
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

// Whether blocks with equal keys may differ, so that a hit has to compare tokens, parents and, of
// first blocks, namespaces (ChainRoot::digest). With xxh3 everything may; in both cbor forms an
// adapter goes by its name, which where there is no salt reads like a salt without an adapter.
constexpr bool NeedsVerification(HashAlgorithm algorithm) {
  return algorithm != HashAlgorithm::kSha256;
}

}  // namespace incipit
