// Runs a DiskTier in tests: stores and loads chunks, and waits for the results.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "tests/support/manual_clock.h"
#include "tests/tier/tier_chunks.h"
#include "tier/disk_tier.h"

namespace incipit {

class TierHarness {
 public:
  static constexpr uint64_t kSegmentBytes = 50 * kPageBytes;  // 16 records of 3 pages

  TierHarness() {
    options.directory = directory.path();
    options.size_bytes = 8 * kSegmentBytes;
    options.segment_bytes = kSegmentBytes;
    options.staging_bytes = 17 * 3 * kPageBytes;
    options.fingerprint.fill(0xab);
    options.shape = kTestShape;
    options.clock = &clock;
    options.unix_seconds = [this] { return unix_seconds.load(); };
    options.lock_retry = std::chrono::milliseconds(20);
    options.retry_pause_min = std::chrono::milliseconds(10);
    options.retry_pause_max = std::chrono::milliseconds(40);
  }

  // Creates the tier and waits until the tier is on.
  void Start(std::unique_ptr<FileSystem> files = nullptr) {
    Create(std::move(files));
    ASSERT_TRUE(WaitFor([&] { return tier->tier_state() == TierState::kOn; }))
        << tier->last_error();
  }
  void Create(std::unique_ptr<FileSystem> files = nullptr) {
    if (tier != nullptr) {
      AddStats();
      finished_ = stats;
    }
    tier.reset();
    if (files) {
      ASSERT_TRUE(files->Prepare().ok());
    }
    auto made = files ? DiskTier::Create(options, std::move(files)) : DiskTier::Create(options);
    ASSERT_TRUE(made.ok()) << made.status();
    tier = *std::move(made);
    tier->SetWake([this] { ++num_wakes; });
  }

  // Calls Poll until `done` returns true. Returns false after 20 seconds.
  bool WaitFor(const std::function<bool()>& done) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (true) {
      tier->Poll();
      AddStats();
      if (done()) return true;
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }

  // Stores a chunk without waiting. Returns false if BeginStore refuses the chunk.
  bool BeginStore(const TestChunk& chunk, uint64_t version = 0, const Retention& retention = {}) {
    const std::optional<StoreTicket> ticket = tier->BeginStore(chunk.identity, retention);
    if (!ticket) return false;
    FillPayload(chunk.identity.key, version, tier->bytes_of(*ticket));
    tier->FinishStore(*ticket);
    return true;
  }
  bool WaitForStores() {
    return WaitFor([&] { return !tier->has_pending_stores(); });
  }
  // Stores a chunk. Returns true if the tier has the chunk then.
  bool Store(const TestChunk& chunk, uint64_t version = 0, const Retention& retention = {}) {
    const int before = num_wakes;
    if (!BeginStore(chunk, version, retention) || !WaitForStores()) return false;
    if (!tier->Has(chunk.identity.key)) return false;
    // The writer calls `wake` after Poll can see the result.
    while (num_wakes == before) std::this_thread::yield();
    return true;
  }

  // Waits for the end of a load, and releases the ticket.
  LoadState Await(LoadTicket ticket) {
    EXPECT_TRUE(WaitFor([&] { return tier->state(ticket) != LoadState::kPending; }));
    const LoadState state = tier->state(ticket);
    tier->Release(ticket);
    return state;
  }
  // Returns true if a load of the chunk has the expected bytes.
  bool Load(const TestChunk& chunk, uint64_t version = 0) {
    const std::optional<LoadTicket> ticket = tier->Load(chunk.identity);
    if (!ticket) return false;
    EXPECT_TRUE(WaitFor([&] { return tier->state(*ticket) != LoadState::kPending; }));
    const bool is_ready = tier->state(*ticket) == LoadState::kReady;
    if (is_ready) {
      EXPECT_TRUE(HasPayload(chunk.identity.key, version, tier->bytes(*ticket)));
    }
    tier->Release(*ticket);
    return is_ready;
  }

  // Sets `stats` to the present values of the tier, and to the sums of the counters of all tiers
  // that were created.
  void AddStats() {
    stats = tier->stats();
    const TierStats& before = finished_;
    const auto add = [&](auto TierStats::*counter) { stats.*counter += before.*counter; };
    for (auto counter :
         {&TierStats::hits, &TierStats::misses, &TierStats::loads_without_slot,
          &TierStats::loads_late, &TierStats::load_errors, &TierStats::loads_cancelled,
          &TierStats::bytes_loaded, &TierStats::chunks_stored, &TierStats::bytes_stored,
          &TierStats::chunks_moved, &TierStats::chunks_reclaimed, &TierStats::chunks_removed,
          &TierStats::times_turned_off}) {
      add(counter);
    }
    for (size_t i = 0; i < stats.rejected.size(); ++i) stats.rejected[i] += before.rejected[i];
    for (size_t i = 0; i < stats.dropped.size(); ++i) stats.dropped[i] += before.dropped[i];
    for (size_t i = 0; i < stats.load_latency.buckets.size(); ++i) {
      stats.load_latency.buckets[i] += before.load_latency.buckets[i];
    }
  }
  uint64_t rejected(RejectReason reason) {
    AddStats();
    return stats.rejected[static_cast<size_t>(reason)];
  }
  uint64_t dropped(StoreDrop reason) {
    AddStats();
    return stats.dropped[static_cast<size_t>(reason)];
  }

  TestDirectory directory;
  ManualClock clock;
  std::atomic<int64_t> unix_seconds = 1'000'000;
  std::atomic<int> num_wakes = 0;
  DiskTierOptions options;
  TierStats stats;
  std::unique_ptr<DiskTier> tier;

 private:
  TierStats finished_;  // sums of the counters of earlier tiers
};

}  // namespace incipit
