// Fixture of the tests of loads from a disk: an engine over the fake model with a disk tier, on a
// disk that can be slow or hang.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "tests/engine/engine_fixture.h"
#include "tests/tier/faulty_file_system.h"
#include "tests/tier/tier_harness.h"

namespace incipit {

// The disk has the chunks of kPrompts prompts, and the cache is empty. Runs each test with one step
// in flight and with two steps in flight.
class DiskLoadsTest : public testing::TestWithParam<int32_t> {
 protected:
  static constexpr int32_t kPromptTokens = 33, kChunks = 4;  // of each prompt
  static constexpr int32_t kOutputTokens = 4, kPrompts = 3;

  // Staging has room for the loads of `num_slots` chunks.
  explicit DiskLoadsTest(uint32_t num_slots, int32_t num_blocks)
      : num_slots_(num_slots), num_blocks_(num_blocks) {
    harness_.options.shape = {
        .block_size = 4, .blocks_per_chunk = 2, .block_bytes = 4 * sizeof(uint64_t)};
    Fill();
    Open(num_slots);
  }

  EngineOptions Options() const {
    EngineOptions options = EngineFixture::DefaultOptions();
    options.scheduler.steps_in_flight_max = GetParam();
    options.cache.num_blocks = num_blocks_;
    return options;
  }
  // Returns a request with one of kPrompts prompts: requests whose `id` differs by kPrompts have
  // the same prompt.
  static Request Ask(uint64_t id) { return EngineFixture::Ask(id, kPromptTokens, kOutputTokens); }

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
    ASSERT_TRUE(harness_.WaitForStores());
    ASSERT_EQ(harness_.stats.chunks, kChunks * kPrompts);
  }

  int num_reads() { return faults_->num_calls(DiskFaults::Call::kRead); }
  // Waits until at least `count` reads have begun.
  void AwaitReads(int count) {
    while (num_reads() < count) std::this_thread::yield();
  }
  // Advances the clock of the engine until the request `id` has ended. The engine may look at the
  // clock before or after each change.
  void AdvanceUntilEnd(uint64_t id) {
    auto end = std::async(std::launch::async, [&] { fixture_->listener.WaitForEnd(id); });
    while (end.wait_for(std::chrono::milliseconds(5)) != std::future_status::ready) {
      fixture_->clock.Advance(std::chrono::milliseconds(20));
    }
  }
  bool WaitForFreeSlots() {
    return harness_.WaitFor([&] { return harness_.stats.slots_free == num_slots_; });
  }
  // Runs the request `id`, and compares its output with the output without a tier.
  void ExpectOutput(uint64_t id) {
    ASSERT_TRUE(fixture_->Submit(Ask(id)).ok());
    fixture_->listener.WaitForEnd(id);
    EXPECT_EQ(fixture_->listener.OutputOf(id).tokens, EngineFixture::Expected(Ask(id)));
  }
  // Ends the engine, and checks that no block and no slot of staging is in use.
  void ExpectNothingInUse() {
    EXPECT_EQ(fixture_->engine->Load().num_used_blocks, 0);
    fixture_.reset();
    EXPECT_TRUE(WaitForFreeSlots());
  }

  TierHarness harness_;
  std::shared_ptr<DiskFaults> faults_ = std::make_shared<DiskFaults>();
  std::unique_ptr<EngineFixture> fixture_;  // uses harness_

 private:
  const uint32_t num_slots_;
  const int32_t num_blocks_;
};

}  // namespace incipit
