#include "base/hash/xxh3.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/kvcache/keys/hex.h"

namespace incipit {
namespace {

// Returns the first `length` bytes with which the sanity check of xxHash fills its buffer.
std::vector<uint8_t> Pattern(size_t length) {
  std::vector<uint8_t> bytes(length);
  uint64_t generator = 2654435761u;
  for (uint8_t& byte : bytes) {
    byte = static_cast<uint8_t>(generator >> 56);
    generator *= 11400714785074694797u;
  }
  return bytes;
}

// The inputs are those of the sanity check of the xxHash library. The expected hashes were computed
// with another binding of the library. Each length takes another path through the algorithm.
TEST(Xxh3Test, EqualsThePublishedVectors) {
  const std::pair<size_t, std::string> vectors[] = {
      {0, "99aa06d3014798d86001c324468d497f"},    {1, "a6cd5e9392000f6ac44bdff4074eecdb"},
      {6, "082afe0b8162d12a3e7039bdda43cfc6"},    {12, "6e3efd8fc7802b18061a192713f69ad9"},
      {24, "0ce966e4678d37611e7044d28b1b901d"},   {48, "a002ac4e5478227ef942219aed80f67b"},
      {81, "4952f58181ab00425e8bafb9f95fb803"},   {222, "337e09641b948717f1aebd597cec6b3a"},
      {403, "1b6de21e332dd73dcdeb804d65c6dea4"},  {512, "18d2d110dcc9bca1617e49599013cb6b"},
      {2048, "f736557fd47073a5dd59e2c3a5f038e0"}, {2367, "e89c0f6ff369b427cb37aeb9e5d361ed"}};
  for (const auto& [length, expected] : vectors) {
    EXPECT_EQ(Hex(Xxh3(Pattern(length))), expected) << length;
  }
}

TEST(Xxh3Test, AMessageMayComeInPiecesOfAnyLength) {
  // Long messages use AVX2 if they are in one piece.
  for (const size_t length : {0, 1, 96, 240, 241, 300, 1200, 4095, 4096, 4097, 70'000}) {
    const std::vector<uint8_t> message = Pattern(length);
    for (const size_t piece : {1, 7, 64, 256, 1200}) {
      const auto write = [&](ByteSink sink) {
        for (size_t at = 0; at < length; at += piece) {
          sink(std::span(message).subspan(at, std::min(piece, length - at)));
        }
        sink({});
      };
      ASSERT_EQ(Hex(Xxh3Of(write)), Hex(Xxh3(message))) << length << " by " << piece;
    }
  }
}

}  // namespace
}  // namespace incipit
