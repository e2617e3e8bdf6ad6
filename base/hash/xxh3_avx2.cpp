// Compiled with -mavx2.
#include "base/hash/xxh3_avx2.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace incipit {

void Xxh3Avx2(const uint8_t* message, size_t size, uint8_t* digest) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(message, size));
  for (size_t i = 0; i < sizeof(canonical.digest); ++i) digest[i] = canonical.digest[i];
}

}  // namespace incipit
