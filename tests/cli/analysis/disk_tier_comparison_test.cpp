// Compares the simulated disk of `incipit replay` with the disk tier of the server: after the same
// stores and uses, both have the same chunks.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "cli/analysis/simulated_disk.h"
#include "tests/tier/tier_harness.h"

namespace incipit {
namespace {

class DiskTierComparisonTest : public testing::Test {
 protected:
  static constexpr int kNumSegments = 8;
  static constexpr int kRecordsPerSegment = 16;
  static constexpr uint32_t kNumChunks = 400;

  DiskTierComparisonTest() {
    h_.options.size_bytes = kNumSegments * TierHarness::kSegmentBytes;
    h_.Start();
  }

  // One request for the chunk: loads the chunk, or uses the chunk without a load, or stores the
  // chunk.
  void Request(uint32_t chunk, bool loads) {
    const TestChunk wanted(chunk, 0);
    ASSERT_EQ(h_.tier->Has(wanted.identity.key), disk_.Has(chunk));
    if (!disk_.Has(chunk)) {
      ASSERT_TRUE(h_.Store(wanted));
      disk_.Store(chunk, 0);
      disk_.Advance(0);
    } else if (loads) {
      ASSERT_TRUE(h_.Load(wanted));
      disk_.Load(chunk);
    } else {
      ASSERT_TRUE(h_.tier->Touch(wanted.identity.key, {}));
      disk_.Store(chunk, 0);
    }
  }
  // Waits until the tier has moved and removed as many chunks as the simulated disk.
  bool WaitForReclaim() {
    return h_.WaitFor([&] {
      return static_cast<int64_t>(h_.stats.chunks_moved) == disk_.counts().moved &&
             static_cast<int64_t>(h_.stats.chunks_reclaimed) == disk_.counts().reclaimed;
    });
  }

  TierHarness h_;
  SimulatedDisk disk_{{.chunk_bytes = 1,
                       .segments_max = kNumSegments,
                       .queue_bytes = 1000,
                       .segment_bytes = kRecordsPerSegment}};
};

TEST_F(DiskTierComparisonTest, BothHaveTheSameChunks) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 2500; ++i) {
    // Half of the requests are for a few popular chunks, which change in the course of the test.
    const auto popular = static_cast<uint32_t>(i / 250 * 30 + random() % 40);
    const auto any = static_cast<uint32_t>(random() % kNumChunks);
    const uint32_t chunk = random() % 2 == 0 ? std::min(popular, kNumChunks - 1) : any;
    Request(chunk, random() % 2 == 0);
    if (HasFatalFailure()) return;
    ASSERT_TRUE(WaitForReclaim()) << i;
  }
  for (uint32_t chunk = 0; chunk < kNumChunks; ++chunk) {
    EXPECT_EQ(h_.tier->Has(TestChunk(chunk, 0).identity.key), disk_.Has(chunk)) << chunk;
  }
  EXPECT_GT(disk_.counts().moved, 50);
  EXPECT_GT(disk_.counts().reclaimed, 500);
}

}  // namespace
}  // namespace incipit
