#include "kvcache/keys/hash_algorithm.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace incipit {
namespace {

// In the order of the enumerators, then the aliases.
constexpr std::array<std::string_view, 6> kAlgorithmNames = {
    "sha256", "xxh3_128", "sha256_cbor", "xxh3_128_cbor", "xxhash", "xxhash_cbor"};
constexpr size_t kNumAlgorithms = 4;

}  // namespace

std::string_view NameOf(HashAlgorithm algorithm) {
  const auto index = static_cast<size_t>(algorithm);
  INCIPIT_CHECK(index < kNumAlgorithms);
  return kAlgorithmNames[index];
}

std::optional<HashAlgorithm> HashAlgorithmOf(std::string_view name) {
  if (name == "xxhash") return HashAlgorithm::kXxh3;
  if (name == "xxhash_cbor") return HashAlgorithm::kXxh3Cbor;
  const auto names = std::span(kAlgorithmNames).first(kNumAlgorithms);
  const auto it = std::ranges::find(names, name);
  if (it == names.end()) return std::nullopt;
  return static_cast<HashAlgorithm>(it - names.begin());
}

std::span<const std::string_view> HashAlgorithmNames() { return kAlgorithmNames; }

}  // namespace incipit
