// Tests that cancelled requests release the staging of a disk tier, on a disk that is slow or
// hangs.
#include <chrono>
#include <thread>

#include "tests/engine/disk_loads_fixture.h"

namespace incipit {
namespace {

// Staging has room for the chunks of one prompt and a half. The cache has room for one prompt, so
// that nearly every request loads its prefix.
class CancelledLoadsTest : public DiskLoadsTest {
 protected:
  static constexpr uint32_t kSlots = 6;
  CancelledLoadsTest() : DiskLoadsTest(kSlots, 12) {}
};

INSTANTIATE_TEST_SUITE_P(StepsInFlight, CancelledLoadsTest, testing::Values(1, 2));

TEST_P(CancelledLoadsTest, CancelsAtRandomTimesLeaveStagingEmpty) {
  constexpr uint64_t kRequests = 1500;
  faults_->delay_max_us = 400;
  faults_->reorders_reads = true;
  for (uint64_t id = 0; id < kRequests; ++id) {
    Request request = Ask(id);
    request.num_choices = id % 5 == 0 ? 3 : 1;
    ASSERT_TRUE(fixture_->Submit(std::move(request)).ok());
    std::this_thread::sleep_for(std::chrono::microseconds(faults_->Random(300)));
    fixture_->engine->Cancel(RequestId{id});
    // Let some requests overlap.
    if (id >= 4) fixture_->listener.WaitForEnd(id - 4);
  }
  // The cancelled reads may still use all slots of staging. Then the next requests load nothing.
  const auto has_hit = [&] { return harness_.tier->published_stats().hits > 0; };
  for (uint64_t i = 0; i < kPrompts || (!has_hit() && i < 10 * kRequests); ++i) {
    ExpectOutput(kRequests + i);
  }
  ExpectNothingInUse();
  EXPECT_GT(harness_.stats.loads_cancelled, 0u);
  EXPECT_GT(harness_.stats.hits, 0u);
}

// The requests end at once, although the disk hangs. Staging is free when the reads have ended.
TEST_P(CancelledLoadsTest, ACancelDoesNotWaitForADiskThatHangs) {
  faults_->Hang(true);
  const int before = num_reads();
  for (uint64_t id = 0; id < kPrompts; ++id) ASSERT_TRUE(fixture_->Submit(Ask(id)).ok());
  AwaitReads(before + 1);
  for (uint64_t id = 0; id < kPrompts; ++id) fixture_->engine->Cancel(RequestId{id});
  for (uint64_t id = 0; id < kPrompts; ++id) fixture_->listener.WaitForEnd(id);
  // The last requests may compute their prompts, because staging is full and no request waits.
  EXPECT_EQ(fixture_->listener.OutputOf(0).finish, FinishReason::kCancelled);
  EXPECT_EQ(fixture_->engine->Load().num_used_blocks, 0);
  fixture_.reset();
  harness_.AddStats();
  EXPECT_LT(harness_.stats.slots_free, kSlots);
  faults_->Hang(false);
  EXPECT_TRUE(WaitForFreeSlots());
}

}  // namespace
}  // namespace incipit
