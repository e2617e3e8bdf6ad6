// SHA-256 (FIPS 180-4). Of our own because a block's key is two compressions, and the set-up of a
// general digest call costs more than those and takes memory from the heap.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace incipit {

using Sha256Digest = std::array<uint8_t, 32>;

Sha256Digest Sha256(std::span<const uint8_t> message);

}  // namespace incipit
