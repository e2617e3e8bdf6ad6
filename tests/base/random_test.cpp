#include "base/random.h"

#include <gtest/gtest.h>

#include <set>

namespace incipit {
namespace {

using Words = std::array<uint32_t, 4>;

// The expected numbers are those that the authors of the generator publish (Random123, file
// kat_vectors).
TEST(RandomTest, PhiloxEqualsThePublishedVectors) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomTest, SeedStreamAndPositionEachChangeTheBits) {
  std::set<uint64_t> seen;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    for (uint32_t stream = 0; stream < 8; ++stream) {
      for (uint64_t position = 0; position < 8; ++position) {
        seen.insert(RandomBits(seed, stream, position));
      }
    }
  }
  EXPECT_EQ(seen.size(), 512u);
}

}  // namespace
}  // namespace incipit
