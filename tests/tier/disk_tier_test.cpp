// Tests a disk tier whose disk works.
#include "tier/disk_tier.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/tier/tier_harness.h"

namespace incipit {
namespace {

using std::chrono::seconds;

class DiskTierTest : public testing::Test {
 protected:
  TierHarness h_;
};

TEST_F(DiskTierTest, ReturnsWhatWasStored) {
  h_.Start();
  const TestChunk a(1, 0), b(1, 1), other(2, 0);
  EXPECT_FALSE(h_.tier->Has(a.identity.key));
  EXPECT_TRUE(h_.Store(a));
  EXPECT_TRUE(h_.Store(b));
  EXPECT_TRUE(h_.Load(a));
  EXPECT_TRUE(h_.Load(b));
  EXPECT_FALSE(h_.Load(other));
  h_.AddStats();
  EXPECT_EQ(h_.stats.hits, 2u);
  EXPECT_EQ(h_.stats.misses, 1u);
  EXPECT_EQ(h_.stats.chunks_stored, 2u);
  EXPECT_EQ(h_.stats.bytes_stored, 2 * 3 * kPageBytes);
  EXPECT_EQ(h_.stats.bytes_loaded, 2 * 3 * kPageBytes);
  EXPECT_EQ(h_.stats.chunks, 2u);
  EXPECT_EQ(h_.stats.bytes_used, TierHarness::kSegmentBytes);
  EXPECT_EQ(h_.stats.slots_free, 16u);
  EXPECT_EQ(h_.stats.staging_bytes_used, 0u);
}

TEST_F(DiskTierTest, WakesTheEngineForAnEndedLoad) {
  h_.Start();
  const TestChunk chunk(1, 0);
  ASSERT_TRUE(h_.Store(chunk));
  const int before = h_.num_wakes;
  const auto ticket = h_.tier->Load(chunk.identity);
  ASSERT_TRUE(ticket.has_value());
  while (h_.num_wakes == before) std::this_thread::yield();
  // The result is visible only after Poll.
  EXPECT_EQ(h_.tier->state(*ticket), LoadState::kPending);
  EXPECT_TRUE(h_.tier->Poll());
  EXPECT_EQ(h_.tier->state(*ticket), LoadState::kReady);
  EXPECT_FALSE(h_.tier->Poll());
  h_.tier->Release(*ticket);
}

TEST_F(DiskTierTest, ARestartFindsAllRecords) {
  h_.Start();
  // 40 records: two sealed segments and one that is not sealed.
  for (uint64_t i = 0; i < 40; ++i) ASSERT_TRUE(h_.Store(TestChunk(i, 0)));
  for (int restart = 0; restart < 3; ++restart) {
    h_.Start();
    EXPECT_EQ(h_.tier->stats().chunks, 40u + static_cast<uint64_t>(restart));
    for (uint64_t i = 0; i < 40; ++i) ASSERT_TRUE(h_.Load(TestChunk(i, 0))) << i;
    // The tier continues the segment that is not sealed.
    ASSERT_TRUE(h_.Store(TestChunk(100 + static_cast<uint64_t>(restart), 0)));
    EXPECT_EQ(h_.directory.Segments().size(), 3u);
  }
}

TEST_F(DiskTierTest, ASecondStoreIsRefused) {
  h_.Start();
  const TestChunk chunk(1, 0);
  const auto ticket = h_.tier->BeginStore(chunk.identity, {});
  ASSERT_TRUE(ticket.has_value());
  EXPECT_FALSE(h_.tier->Has(chunk.identity.key));
  EXPECT_FALSE(h_.tier->BeginStore(chunk.identity, {}).has_value());
  h_.tier->CancelStore(*ticket);
  EXPECT_TRUE(h_.Store(chunk));
  EXPECT_FALSE(h_.tier->BeginStore(chunk.identity, {}).has_value());
}

TEST_F(DiskTierTest, LoadsOfOneChunkShareATicket) {
  h_.Start();
  const TestChunk chunk(1, 0);
  ASSERT_TRUE(h_.Store(chunk));
  const auto a = h_.tier->Load(chunk.identity), b = h_.tier->Load(chunk.identity);
  ASSERT_TRUE(a && b);
  EXPECT_EQ(*a, *b);
  ASSERT_TRUE(h_.WaitFor([&] { return h_.tier->state(*a) == LoadState::kReady; }));
  const auto c = h_.tier->Load(chunk.identity);
  EXPECT_EQ(*c, *a);
  h_.tier->Release(*a);
  h_.tier->Release(*b);
  EXPECT_EQ(h_.tier->state(*c), LoadState::kReady);
  h_.tier->Release(*c);
  h_.AddStats();
  EXPECT_EQ(h_.stats.hits, 1u);
  EXPECT_EQ(h_.stats.slots_free, 16u);
  EXPECT_EQ(h_.stats.staging_bytes_used, 0u);
}

TEST_F(DiskTierTest, ATicketIsReleasedOnce) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  h_.Start();
  const TestChunk chunk(1, 0);
  ASSERT_TRUE(h_.Store(chunk));
  const auto ticket = h_.tier->Load(chunk.identity);
  EXPECT_EQ(h_.Await(*ticket), LoadState::kReady);
  EXPECT_DEATH(h_.tier->Release(*ticket), "slot.use == use");
}

TEST_F(DiskTierTest, AChunkThatDiffersInOneFieldDoesNotShareALoad) {
  h_.Start();
  const TestChunk chunk(1, 0);
  ASSERT_TRUE(h_.Store(chunk));
  const auto ticket = h_.tier->Load(chunk.identity);
  ChunkIdentity other = chunk.identity;
  other.parent.bytes[5] ^= 1;
  EXPECT_FALSE(h_.tier->Load(other).has_value());
  EXPECT_EQ(h_.Await(*ticket), LoadState::kReady);
  const auto alone = h_.tier->Load(other);
  ASSERT_TRUE(alone.has_value());
  EXPECT_EQ(h_.Await(*alone), LoadState::kFailed);
  EXPECT_EQ(h_.rejected(RejectReason::kParent), 1u);
  EXPECT_FALSE(h_.tier->Has(chunk.identity.key));
}

TEST_F(DiskTierTest, ACancelledLoadKeepsItsSlotUntilTheReadEnds) {
  h_.Start();
  const TestChunk chunk(1, 0);
  ASSERT_TRUE(h_.Store(chunk));
  const auto ticket = h_.tier->Load(chunk.identity);
  h_.tier->Release(*ticket);
  const TierStats stats = h_.tier->stats();
  EXPECT_EQ(stats.slots_free, 15u);
  EXPECT_EQ(stats.staging_bytes_used, 3 * kPageBytes);
  EXPECT_TRUE(h_.WaitFor([&] { return h_.stats.slots_free == 16; }));
  EXPECT_EQ(h_.stats.loads_cancelled, 1u);
  EXPECT_TRUE(h_.Load(chunk));
}

TEST_F(DiskTierTest, StagingLimitsLoadsAndStores) {
  h_.Start();
  for (uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(h_.Store(TestChunk(i, 0)));
  std::vector<LoadTicket> tickets;
  for (uint64_t i = 0; i < 16; ++i) tickets.push_back(*h_.tier->Load(TestChunk(i, 0).identity));
  EXPECT_FALSE(h_.tier->Load(TestChunk(16, 0).identity).has_value());
  EXPECT_FALSE(h_.tier->BeginStore(TestChunk(30, 0).identity, {}).has_value());
  EXPECT_EQ(h_.dropped(StoreDrop::kStagingFull), 1u);
  EXPECT_EQ(h_.stats.loads_without_slot, 1u);
  for (const LoadTicket ticket : tickets) EXPECT_EQ(h_.Await(ticket), LoadState::kReady);

  // Stores use at most 8 of 16 slots.
  std::vector<StoreTicket> stores;
  for (uint64_t i = 0; i < 8; ++i) {
    stores.push_back(*h_.tier->BeginStore(TestChunk(40 + i, 0).identity, {}));
  }
  EXPECT_FALSE(h_.tier->BeginStore(TestChunk(50, 0).identity, {}).has_value());
  for (const StoreTicket ticket : stores) h_.tier->CancelStore(ticket);
  EXPECT_EQ(h_.tier->stats().slots_free, 16u);
}

TEST_F(DiskTierTest, ClearFailsLoadsAndRemovesFiles) {
  h_.Start();
  const TestChunk a(1, 0), b(2, 0), c(3, 0);
  ASSERT_TRUE(h_.Store(a));
  ASSERT_TRUE(h_.Store(b));
  const auto ready = h_.tier->Load(a.identity);
  ASSERT_TRUE(h_.WaitFor([&] { return h_.tier->state(*ready) == LoadState::kReady; }));
  const auto pending = h_.tier->Load(b.identity);
  const auto store = h_.tier->BeginStore(c.identity, {});
  h_.tier->Clear();
  EXPECT_EQ(h_.tier->state(*ready), LoadState::kFailed);
  EXPECT_EQ(h_.tier->state(*pending), LoadState::kFailed);
  EXPECT_FALSE(h_.tier->Has(a.identity.key));
  h_.tier->FinishStore(*store);  // is dropped
  EXPECT_TRUE(h_.WaitFor([&] { return h_.directory.Segments().empty(); }));
  EXPECT_EQ(h_.tier->state(*pending), LoadState::kFailed);
  h_.tier->Release(*ready);
  h_.tier->Release(*pending);
  EXPECT_EQ(h_.dropped(StoreDrop::kRemoved), 1u);
  EXPECT_TRUE(h_.Store(c));
  h_.Start();
  EXPECT_FALSE(h_.tier->Has(a.identity.key));
  EXPECT_TRUE(h_.Load(c));
}

TEST_F(DiskTierTest, RemoveAlsoRemovesFollowingChunksOnTheDisk) {
  h_.Start();
  for (uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(h_.Store(TestChunk(1, i)));
  ASSERT_TRUE(h_.Store(TestChunk(2, 0)));
  const auto ready = h_.tier->Load(TestChunk(1, 12).identity);
  ASSERT_TRUE(h_.WaitFor([&] { return h_.tier->state(*ready) == LoadState::kReady; }));
  h_.tier->Remove(TestChunk(1, 10).identity.key);
  EXPECT_EQ(h_.tier->state(*ready), LoadState::kFailed);
  h_.tier->Release(*ready);
  EXPECT_FALSE(h_.tier->Has(TestChunk(1, 10).identity.key));
  EXPECT_FALSE(h_.tier->Has(TestChunk(1, 19).identity.key));
  EXPECT_TRUE(h_.Load(TestChunk(1, 9)));
  ASSERT_TRUE(h_.Store(TestChunk(3, 0)));  // the writer has erased the records before this store
  h_.Start();
  EXPECT_TRUE(h_.Load(TestChunk(1, 9)));
  EXPECT_TRUE(h_.Load(TestChunk(2, 0)));
  for (uint64_t i = 10; i < 20; ++i) EXPECT_FALSE(h_.Load(TestChunk(1, i))) << i;
}

TEST_F(DiskTierTest, RemoveDropsAStoreInProgress) {
  h_.Start();
  const TestChunk parent(1, 0), begun(1, 1);
  ASSERT_TRUE(h_.Store(parent));
  const auto ticket = h_.tier->BeginStore(begun.identity, {});
  ASSERT_TRUE(h_.BeginStore(TestChunk(1, 2)));  // may be written before Remove
  h_.tier->Remove(parent.identity.key);
  h_.tier->FinishStore(*ticket);
  ASSERT_TRUE(h_.WaitForStores());
  EXPECT_EQ(h_.dropped(StoreDrop::kRemoved), 2u);
  ASSERT_TRUE(h_.Store(TestChunk(5, 0)));
  h_.Start();
  for (uint64_t i = 0; i < 3; ++i) EXPECT_FALSE(h_.Load(TestChunk(1, i))) << i;
  EXPECT_TRUE(h_.Load(TestChunk(5, 0)));
}

// Each call that changes a counter or a present value lets the next Poll publish the values.
TEST_F(DiskTierTest, PollPublishesChangedValues) {
  h_.Start();
  const auto published = [&] {
    h_.tier->Poll();
    const TierStats seen = h_.tier->published_stats(), now = h_.tier->stats();
    EXPECT_EQ(seen.misses, now.misses);
    EXPECT_EQ(seen.chunks, now.chunks);
    EXPECT_EQ(seen.slots_free, now.slots_free);
    EXPECT_EQ(seen.stores_pending, now.stores_pending);
    EXPECT_EQ(seen.chunks_removed, now.chunks_removed);
    EXPECT_EQ(seen.dropped, now.dropped);
    EXPECT_EQ(seen.state, now.state);
    EXPECT_EQ(seen.bytes_used, now.bytes_used);
    return seen;
  };
  EXPECT_EQ(published().state, TierState::kOn);
  EXPECT_FALSE(h_.tier->Load(TestChunk(1, 0).identity).has_value());
  EXPECT_EQ(published().misses, 1u);
  const auto cancelled = h_.tier->BeginStore(TestChunk(1, 0).identity, {});
  EXPECT_EQ(published().stores_pending, 1u);
  h_.tier->CancelStore(*cancelled);
  EXPECT_EQ(published().stores_pending, 0u);
  ASSERT_TRUE(h_.Store(TestChunk(1, 0)));
  EXPECT_EQ(published().chunks_stored, 1u);
  EXPECT_EQ(published().bytes_used, TierHarness::kSegmentBytes);
  const auto load = h_.tier->Load(TestChunk(1, 0).identity);
  ASSERT_TRUE(h_.WaitFor([&] { return h_.tier->state(*load) == LoadState::kReady; }));
  EXPECT_EQ(published().slots_free, 15u);
  h_.tier->Release(*load);
  EXPECT_EQ(published().slots_free, 16u);
  h_.tier->Remove(TestChunk(1, 0).identity.key);
  EXPECT_EQ(published().chunks_removed, 1u);
  ASSERT_TRUE(h_.Store(TestChunk(2, 0)));
  EXPECT_EQ(published().chunks, 1u);
  h_.tier->Clear();
  EXPECT_EQ(published().chunks, 0u);
}

TEST_F(DiskTierTest, PolicyReusedStoresAtTheSecondCall) {
  h_.options.store = StorePolicy::kReused;
  h_.Start();
  EXPECT_FALSE(h_.Store(TestChunk(1, 0)));
  EXPECT_FALSE(h_.Store(TestChunk(2, 0)));
  EXPECT_TRUE(h_.Store(TestChunk(1, 0)));
  EXPECT_EQ(h_.dropped(StoreDrop::kNotReused), 2u);
}

TEST_F(DiskTierTest, TheWriteBudgetLimitsStores) {
  h_.options.write_bytes_per_second = 3 * kPageBytes;  // one record per second
  h_.Start();
  // The burst is one segment: 16 records of 3 pages.
  uint64_t num_stored = 0;
  for (uint64_t i = 0; i < 30; ++i) num_stored += h_.Store(TestChunk(i, 0));
  EXPECT_EQ(num_stored, 16u);
  EXPECT_EQ(h_.dropped(StoreDrop::kWriteBudget), 14u);
  h_.clock.Advance(seconds(3));
  for (uint64_t i = 30; i < 40; ++i) num_stored += h_.Store(TestChunk(i, 0));
  EXPECT_EQ(num_stored, 19u);
}

TEST_F(DiskTierTest, ThereIsRoomForAChunkThatTheTierWouldStore) {
  h_.options.write_bytes_per_second = 3 * kPageBytes;  // one record per second
  h_.Create();
  EXPECT_EQ(h_.tier->RoomFor(TestChunk(1, 0).identity.key), StoreRoom::kNever) << "not on";
  ASSERT_TRUE(h_.WaitFor([&] { return h_.tier->tier_state() == TierState::kOn; }));
  const auto room_for = [&](uint64_t chain) {
    return h_.tier->RoomFor(TestChunk(chain, 0).identity.key);
  };
  EXPECT_EQ(room_for(1), StoreRoom::kNow);
  EXPECT_EQ(room_for(1), StoreRoom::kNow) << "a call changes nothing";
  ASSERT_TRUE(h_.Store(TestChunk(1, 0)));
  EXPECT_EQ(room_for(1), StoreRoom::kNever) << "stored";
  // Stores may use 8 of the 16 slots.
  std::vector<StoreTicket> tickets;
  for (uint64_t i = 2; i < 10; ++i) {
    const auto ticket = h_.tier->BeginStore(TestChunk(i, 0).identity, {});
    ASSERT_TRUE(ticket.has_value());
    tickets.push_back(*ticket);
  }
  EXPECT_EQ(room_for(2), StoreRoom::kNever) << "pending";
  EXPECT_EQ(room_for(10), StoreRoom::kLater) << "no slot";
  for (const StoreTicket ticket : tickets) h_.tier->CancelStore(ticket);
  EXPECT_EQ(room_for(10), StoreRoom::kNow);
  // The burst of the write budget is 16 records. 9 records have used the budget.
  for (uint64_t i = 10; i < 17; ++i) EXPECT_TRUE(h_.Store(TestChunk(i, 0))) << i;
  EXPECT_EQ(room_for(20), StoreRoom::kLater) << "no write budget";
  h_.clock.Advance(seconds(1));
  EXPECT_EQ(room_for(20), StoreRoom::kNow);
}

TEST_F(DiskTierTest, WithThePolicyReusedThereIsRoomForAChunkOfTwoRequests) {
  h_.options.store = StorePolicy::kReused;
  h_.Start();
  const TestChunk chunk(1, 0);
  EXPECT_EQ(h_.tier->RoomFor(chunk.identity.key), StoreRoom::kNever);
  EXPECT_FALSE(h_.BeginStore(chunk));
  EXPECT_EQ(h_.tier->RoomFor(chunk.identity.key), StoreRoom::kNever) << "only one request";
  // The second request finds no slot.
  std::vector<StoreTicket> tickets;
  for (uint64_t i = 2; i < 10; ++i) {
    h_.tier->BeginStore(TestChunk(i, 0).identity, {});
    tickets.push_back(h_.tier->BeginStore(TestChunk(i, 0).identity, {}).value());
  }
  EXPECT_FALSE(h_.BeginStore(chunk));
  EXPECT_EQ(h_.tier->RoomFor(chunk.identity.key), StoreRoom::kLater);
  for (const StoreTicket ticket : tickets) h_.tier->CancelStore(ticket);
  EXPECT_EQ(h_.tier->RoomFor(chunk.identity.key), StoreRoom::kNow);
  EXPECT_TRUE(h_.Store(chunk));
}

TEST_F(DiskTierTest, AReclaimKeepsUsedChunks) {
  h_.Start();
  const TestChunk hot(1000, 0);
  ASSERT_TRUE(h_.Store(hot));
  for (uint64_t i = 0; i < 500; ++i) {
    ASSERT_TRUE(h_.Store(TestChunk(i, 0))) << i;
    if (i % 20 == 0) {
      ASSERT_TRUE(h_.Load(hot)) << i;
    }
    ASSERT_LE(h_.directory.Segments().size(), 8u);
  }
  EXPECT_TRUE(h_.Load(hot));
  EXPECT_FALSE(h_.tier->Has(TestChunk(0, 0).identity.key));
  EXPECT_TRUE(h_.Load(TestChunk(499, 0)));
  h_.AddStats();
  EXPECT_GT(h_.stats.chunks_moved, 2u);
  EXPECT_GT(h_.stats.chunks_reclaimed, 350u);
  EXPECT_LE(h_.stats.bytes_used, h_.options.size_bytes);
  // All chunks that the index has are on the disk.
  const uint64_t chunks = h_.stats.chunks;
  h_.Start();
  EXPECT_EQ(h_.tier->stats().chunks, chunks);
  EXPECT_TRUE(h_.Load(hot));
}

// All chunks of segment 1 are used again and again, so the segment stays as a whole.
TEST_F(DiskTierTest, ReclaimsTheSegmentThatWasNotUsedForLongest) {
  h_.Start();
  for (uint64_t i = 0; i < 500; ++i) {
    ASSERT_TRUE(h_.Store(TestChunk(i, 0))) << i;
    for (uint64_t hot = 0; hot < std::min<uint64_t>(i, 16); ++hot) {
      ASSERT_TRUE(h_.tier->Touch(TestChunk(hot, 0).identity.key, {})) << i;
    }
  }
  for (uint64_t hot = 0; hot < 16; ++hot) EXPECT_TRUE(h_.Load(TestChunk(hot, 0))) << hot;
  EXPECT_FALSE(h_.tier->Has(TestChunk(16, 0).identity.key));
  h_.AddStats();
  EXPECT_EQ(h_.stats.chunks_moved, 0u);
  EXPECT_GT(h_.stats.chunks_reclaimed, 350u);
}

TEST_F(DiskTierTest, AllChunksUsedStillLeaveRoomForNewOnes) {
  h_.options.size_bytes = 2 * TierHarness::kSegmentBytes;
  h_.Start();
  for (uint64_t i = 0; i < 200; ++i) {
    ASSERT_TRUE(h_.Store(TestChunk(i, 0))) << i;
    ASSERT_TRUE(h_.Load(TestChunk(i, 0))) << i;
  }
}

TEST_F(DiskTierTest, OtherFingerprintsAreKeptApartAndCount) {
  h_.Start();
  for (uint64_t i = 0; i < 48; ++i) ASSERT_TRUE(h_.Store(TestChunk(i, 0)));  // 3 segments
  Fingerprint& fingerprint = h_.options.fingerprint;
  fingerprint.fill(0xcd);
  h_.Start();
  EXPECT_FALSE(h_.tier->Has(TestChunk(0, 0).identity.key));
  EXPECT_EQ(h_.tier->stats().bytes_used, 3 * TierHarness::kSegmentBytes);
  // 6 segments of the second fingerprint: one segment of the first fingerprint is removed.
  for (uint64_t i = 0; i < 88; ++i) ASSERT_TRUE(h_.Store(TestChunk(i, 0), 1));
  fingerprint.fill(0xab);
  h_.Start();
  EXPECT_FALSE(h_.Load(TestChunk(0, 0)));
  for (uint64_t i = 16; i < 48; ++i) EXPECT_TRUE(h_.Load(TestChunk(i, 0))) << i;
  fingerprint.fill(0xcd);
  h_.Start();
  for (uint64_t i = 0; i < 88; ++i) EXPECT_TRUE(h_.Load(TestChunk(i, 0), 1)) << i;
  // Clear removes only the segments of its own fingerprint.
  h_.tier->Clear();
  EXPECT_TRUE(h_.WaitFor([&] { return h_.directory.Segments().size() == 2; }));
}

// Segment 1 is the oldest segment of all, and is used again and again. Segments 2 to 4 have another
// fingerprint.
TEST_F(DiskTierTest, OtherFingerprintsLeaveBeforeUsedSegments) {
  const auto touch_first = [&] {
    for (uint64_t i = 0; i < 16; ++i) {
      ASSERT_TRUE(h_.tier->Touch(TestChunk(i, 0).identity.key, {})) << i;
    }
  };
  h_.Start();
  for (uint64_t i = 0; i < 16; ++i) ASSERT_TRUE(h_.Store(TestChunk(i, 0)));
  Fingerprint& fingerprint = h_.options.fingerprint;
  fingerprint.fill(0xcd);
  h_.Start();
  for (uint64_t i = 0; i < 48; ++i) ASSERT_TRUE(h_.Store(TestChunk(i, 0), 1));
  fingerprint.fill(0xab);
  h_.Start();
  // 7 segments of 8 are in use: segments 1 to 4, and segments 5 to 7.
  for (uint64_t i = 100; i < 148; ++i) {
    ASSERT_TRUE(h_.Store(TestChunk(i, 0)));
    touch_first();
  }
  // Segments 9 to 11 take the room of segments 2 to 4. Segment 11 is less than half full.
  for (uint64_t i = 148; i < 203; ++i) {
    ASSERT_TRUE(h_.Store(TestChunk(i, 0)));
    touch_first();
  }
  for (uint64_t i = 100; i < 203; ++i) EXPECT_TRUE(h_.tier->Has(TestChunk(i, 0).identity.key));
  fingerprint.fill(0xcd);
  h_.Start();
  for (uint64_t i = 0; i < 48; ++i) EXPECT_FALSE(h_.tier->Has(TestChunk(i, 0).identity.key)) << i;
}

bool FirstIsFinite(std::span<const std::byte> payload) {
  float value;
  std::memcpy(&value, payload.data(), sizeof(value));
  return std::isfinite(value);
}

TEST_F(DiskTierTest, ChunksThatAreNotFiniteAreNotStored) {
  h_.options.is_finite = FirstIsFinite;
  h_.Start();
  const TestChunk chunk(1, 0);
  const auto ticket = h_.tier->BeginStore(chunk.identity, {});
  const float value = std::numeric_limits<float>::infinity();
  std::memcpy(h_.tier->bytes_of(*ticket).data(), &value, sizeof(value));
  h_.tier->FinishStore(*ticket);
  ASSERT_TRUE(h_.WaitForStores());
  EXPECT_FALSE(h_.tier->Has(chunk.identity.key));
  EXPECT_EQ(h_.dropped(StoreDrop::kNotFinite), 1u);
  EXPECT_TRUE(h_.directory.Segments().empty());
}

TEST_F(DiskTierTest, WorksWithoutIoUring) {
  h_.options.io = IoMethod::kPread;
  h_.Start();
  for (uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(h_.Store(TestChunk(i, 0)));
  for (uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(h_.Load(TestChunk(i, 0)));
}

TEST_F(DiskTierTest, RefusesOptionsThatCannotWork) {
  const auto message = [&] { return std::string(DiskTier::Create(h_.options).status().message()); };
  h_.options.size_bytes = TierHarness::kSegmentBytes;
  EXPECT_EQ(message(), "the size of the disk tier is 204800 bytes; the minimum is 409600 bytes");
  h_.options.size_bytes = 8 * TierHarness::kSegmentBytes;
  h_.options.staging_bytes = 3 * 12288;
  EXPECT_EQ(message(), "staging has 36864 bytes; the minimum is 4 chunks of 12288 bytes");
  h_.options.segment_bytes = 16384;
  EXPECT_EQ(
      message(),
      "a chunk needs 12288 bytes on the disk, which do not fit into a segment of 16384 bytes");
}

TEST_F(DiskTierTest, PredictsLoadsFromMeasuredLoads) {
  h_.options.assumed_load_rate = 12288;  // one chunk per second
  SteadyClock clock;
  h_.options.clock = &clock;
  h_.Start();
  EXPECT_NEAR(ToSeconds(h_.tier->PredictLoad(10)), 10, 0.01);
  const TestChunk chunk(1, 0);
  ASSERT_TRUE(h_.Store(chunk));
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(h_.Load(chunk));
  EXPECT_LT(ToSeconds(h_.tier->PredictLoad(10)), 2);
  const Duration idle = h_.tier->PredictLoad(1);
  const auto ticket = h_.tier->Load(chunk.identity);
  EXPECT_GT(h_.tier->PredictLoad(1), idle);  // the load in the queue counts
  h_.Await(*ticket);
}

}  // namespace
}  // namespace incipit
