#include "kvcache/keys/xxh3.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <bit>

#include "base/check.h"

namespace incipit {
namespace {

Xxh3Digest Canonical(const XXH128_hash_t& hash) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  return std::bit_cast<Xxh3Digest>(canonical);
}

}  // namespace

Xxh3Digest Xxh3(std::span<const uint8_t> message) {
  return Canonical(XXH3_128bits(message.data(), message.size()));
}

Xxh3Digest Xxh3Of(ByteSource message) {
  XXH3_state_t state;
  XXH3_INITSTATE(&state);
  INCIPIT_CHECK(XXH3_128bits_reset(&state) == XXH_OK);
  message([&state](std::span<const uint8_t> bytes) {
    INCIPIT_CHECK(XXH3_128bits_update(&state, bytes.data(), bytes.size()) == XXH_OK);
  });
  return Canonical(XXH3_128bits_digest(&state));
}

}  // namespace incipit
