// XXH3 with 128 bits and no seed, as xxHash 0.8 defines it. Not cryptographic: who chooses the
// messages can make two with one digest. Thread-safe; nothing allocates.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "kvcache/keys/byte_sink.h"

namespace incipit {

using Xxh3Digest = std::array<uint8_t, 16>;  // canonical: the high half first, big-endian

Xxh3Digest Xxh3(std::span<const uint8_t> message);
// Of what `message` writes.
Xxh3Digest Xxh3Of(ByteSource message);

}  // namespace incipit
