// Declares XXH3 for CPUs with AVX2.
#pragma once

#include <cstddef>
#include <cstdint>

namespace incipit {

// Writes the 16-byte XXH3 digest of `size` bytes at `message` to `digest`. Has no parameters of
// library types, because the compiler must not use AVX2 in functions that other files share.
// REQUIRES: the CPU has AVX2.
void Xxh3Avx2(const uint8_t* message, size_t size, uint8_t* digest);

}  // namespace incipit
