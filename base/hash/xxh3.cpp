#include "base/hash/xxh3.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <bit>

#include "base/check.h"
#include "base/hash/xxh3_avx2.h"

namespace incipit {
namespace {

Xxh3Digest Canonical(const XXH128_hash_t& hash) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  return std::bit_cast<Xxh3Digest>(canonical);
}

#if defined(__x86_64__)
// Minimum length in bytes of a message for which AVX2 is used. Shorter messages, such as block
// keys, use the inlined code.
constexpr size_t kAvx2BytesMin = 4096;

bool HasAvx2() {
  static const bool has = __builtin_cpu_supports("avx2");
  return has;
}
#endif

}  // namespace

Xxh3Digest Xxh3(std::span<const uint8_t> message) {
#if defined(__x86_64__)
  if (message.size() >= kAvx2BytesMin && HasAvx2()) {
    Xxh3Digest digest;
    Xxh3Avx2(message.data(), message.size(), digest.data());
    return digest;
  }
#endif
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
