// Tests that cancelled requests release the staging of a disk tier, on a disk that is slow or
// hangs.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>

#include "tests/engine/engine_fixture.h"
#include "tests/tier/faulty_file_system.h"
#include "tests/tier/tier_harness.h"

namespace incipit {
namespace {

// Runs each test with one step in flight and with two steps in flight.
class CancelledLoadsTest : public testing::TestWithParam<int32_t> {
 protected:
  static constexpr int32_t kPromptTokens = 33, kPrompts = 3;  // 4 chunks each
  static constexpr uint32_t kSlots = 6;

  CancelledLoadsTest() {
    harness_.options.shape = {
        .block_size = 4, .blocks_per_chunk = 2, .block_bytes = 4 * sizeof(uint64_t)};
    Fill();
    // Staging then has room for the chunks of one prompt and a half.
    Open(kSlots);
  }

  static EngineOptions Options() {
    EngineOptions options = EngineFixture::DefaultOptions();
    options.scheduler.steps_in_flight_max = GetParam();
    // The cache has room for one prompt, so that nearly every request loads its prefix.
    options.cache.num_blocks = 12;
    return options;
  }
  static Request Ask(uint64_t id) { return EngineFixture::Ask(id, kPromptTokens, 4); }

  // Starts the tier and an engine with an empty cache.
  void Open(uint32_t num_slots) {
    fixture_.reset();
    const uint64_t record_bytes = RecordLayout(harness_.options.shape).record_bytes;
    harness_.options.staging_bytes = (num_slots + 1) * record_bytes;  // the writer uses one slot
    harness_.Start(std::make_unique<FaultyFileSystem>(
        MakePosixFileSystem(harness_.options.directory, IoMethod::kPread), faults_));
    fixture_ = std::make_unique<EngineFixture>(Options(), GetParam() == 2, harness_.tier.get());
  }
  void Fill() {
    Open(64);
    for (uint64_t id = 0; id < kPrompts; ++id) {
      ASSERT_TRUE(fixture_->Submit(Ask(id)).ok());
      fixture_->listener.WaitForEnd(id);
    }
    fixture_.reset();
    ASSERT_TRUE(harness_.WaitFor([&] { return harness_.stats.chunks == 4 * kPrompts; }));
  }
  bool WaitForFreeSlots() {
    return harness_.WaitFor([&] { return harness_.stats.slots_free == kSlots; });
  }

  TierHarness harness_;
  std::shared_ptr<DiskFaults> faults_ = std::make_shared<DiskFaults>();
  std::unique_ptr<EngineFixture> fixture_;  // uses harness_
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
  for (uint64_t id = kRequests; id < kRequests + kPrompts; ++id) {
    ASSERT_TRUE(fixture_->Submit(Ask(id)).ok());
    fixture_->listener.WaitForEnd(id);
    EXPECT_EQ(fixture_->listener.OutputOf(id).tokens, EngineFixture::Expected(Ask(id)));
  }
  EXPECT_EQ(fixture_->engine->Load().num_used_blocks, 0);
  fixture_.reset();
  EXPECT_TRUE(WaitForFreeSlots());
  EXPECT_GT(harness_.stats.loads_cancelled, 0u);
  EXPECT_GT(harness_.stats.hits, 0u);
}

// The requests end at once, although the disk hangs. Staging is free when the reads have ended.
TEST_P(CancelledLoadsTest, ACancelDoesNotWaitForADiskThatHangs) {
  faults_->Hang(true);
  const int num_reads = faults_->num_calls(DiskFaults::Call::kRead);
  for (uint64_t id = 0; id < kPrompts; ++id) ASSERT_TRUE(fixture_->Submit(Ask(id)).ok());
  while (faults_->num_calls(DiskFaults::Call::kRead) == num_reads) std::this_thread::yield();
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
