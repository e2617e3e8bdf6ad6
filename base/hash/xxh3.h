// XXH3 with 128 bits and without a seed, as xxHash 0.8 defines it. XXH3 is not cryptographic: an
// attacker can construct messages with equal digests. All functions are thread-safe and allocate no
// memory.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/hash/byte_sink.h"

namespace incipit {

// The 128-bit digest in big-endian byte order: high 64 bits first.
using Xxh3Digest = std::array<uint8_t, 16>;

Xxh3Digest Xxh3(std::span<const uint8_t> message);
// Returns the XXH3 digest of the bytes that the function `message` writes.
Xxh3Digest Xxh3Of(ByteSource message);

}  // namespace incipit
