// Defines a random number generator without state. The random bits depend only on (seed, stream,
// position). A sampled token therefore does not depend on the other tokens of a batch, on the order
// of sampling, or on the backend.
#pragma once

#include <array>
#include <cstdint>

namespace incipit {

// Computes the generator Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as
// easy as 1, 2, 3", SC'11). Tests compare its results with the test vectors of the authors.
constexpr std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter,
                                             std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * counter[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

// Returns the 64 random bits that sample one token. `seed` is the seed of the request. `stream` is
// the index of the choice (one of n outputs). `position` is the position of the sampled token in
// its sequence.
constexpr uint64_t RandomBits(uint64_t seed, uint32_t stream, uint64_t position) {
  const auto bits = Philox4x32(
      {static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), stream, 0},
      {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return uint64_t{bits[1]} << 32 | bits[0];
}

}  // namespace incipit
