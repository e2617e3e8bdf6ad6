// Tests a disk tier whose disk fails, is full, is slow or hangs.
#include <gtest/gtest.h>

#include <vector>

#include "base/status.h"
#include "tests/tier/faulty_file_system.h"
#include "tests/tier/tier_harness.h"

namespace incipit {
namespace {

using Call = DiskFaults::Call;
using std::chrono::milliseconds;
using std::chrono::seconds;

class DiskTierFaultsTest : public testing::Test {
 protected:
  ~DiskTierFaultsTest() override { faults_->Hang(false); }

  std::unique_ptr<FileSystem> Files() {
    return std::make_unique<FaultyFileSystem>(
        MakePosixFileSystem(h_.options.directory, IoMethod::kPread), faults_);
  }
  void Start() { h_.Start(Files()); }
  bool WaitForState(TierState state) {
    return h_.WaitFor([&] { return h_.tier->tier_state() == state; });
  }

  // Starts a tier that moves the chunk `hot` to its second segment, and removes the first segment.
  // The engine thread does not know the new location yet.
  void MoveWithoutPoll(const TestChunk& hot) {
    h_.options.size_bytes = 2 * TierHarness::kSegmentBytes;
    Start();
    ASSERT_TRUE(h_.Store(hot));
    for (uint64_t i = 0; i < 16; ++i) ASSERT_TRUE(h_.Store(TestChunk(i, 0)));
    ASSERT_TRUE(h_.Load(hot));  // the second segment is the newest segment
    for (uint64_t i = 16; i < 22; ++i) ASSERT_TRUE(h_.Store(TestChunk(i, 0)));
    const int num_removed = faults_->num_calls(Call::kRemove);
    int num_wakes = h_.num_wakes;
    // Half of the second segment is full then.
    ASSERT_TRUE(h_.BeginStore(TestChunk(22, 0)));
    // Poll allows the writer to reclaim. An earlier store may wake, too. The writer removes the
    // segment before it wakes again.
    while (true) {
      const int num_wakes_now = h_.num_wakes;
      if (faults_->num_calls(Call::kRemove) != num_removed) break;
      if (num_wakes_now == num_wakes) {
        std::this_thread::yield();
        continue;
      }
      num_wakes = num_wakes_now;
      h_.tier->Poll();
    }
    std::this_thread::sleep_for(milliseconds(5));
  }

  // Starts a tier of two segments. Stores and loads `hot` and `other` in the first segment, and
  // fills nearly half of the second segment. The next store begins a reclaim of the first segment.
  void FillBeforeReclaim(const TestChunk& hot, const TestChunk& other) {
    h_.options.size_bytes = 2 * TierHarness::kSegmentBytes;
    Start();
    ASSERT_TRUE(h_.Store(hot) && h_.Store(other));
    for (uint64_t i = 0; i < 15; ++i) ASSERT_TRUE(h_.Store(TestChunk(i, 0)));
    // The second segment is the newest segment.
    ASSERT_TRUE(h_.Load(hot) && h_.Load(other));
    for (uint64_t i = 15; i < 21; ++i) ASSERT_TRUE(h_.Store(TestChunk(i, 0)));
  }

  // Makes the hanging writes fail, waits until the tier is off, and ends the fault.
  void FailHangingWrites() {
    faults_->Fail(Call::kWrite, Unavailable("no write"));
    faults_->Hang(false);
    ASSERT_TRUE(WaitForState(TierState::kOff));
    faults_->Fail(Call::kWrite, absl::OkStatus());
  }

  TierHarness h_;
  std::shared_ptr<DiskFaults> faults_ = std::make_shared<DiskFaults>();
};

// The tier ends while the writer moves the first of two used chunks out of the oldest segment.
TEST_F(DiskTierFaultsTest, TheEndOfTheTierKeepsUsedChunksThatAreNotMovedYet) {
  const TestChunk hot(1000, 0), other(1001, 0);
  FillBeforeReclaim(hot, other);
  const int num_wakes = h_.num_wakes;
  // The writer wakes for the store and for the reclaim.
  ASSERT_TRUE(h_.BeginStore(TestChunk(21, 0)));
  while (h_.num_wakes < num_wakes + 2) std::this_thread::yield();
  faults_->Hang(true);
  const int num_reads = faults_->num_calls(Call::kRead);
  ASSERT_TRUE(h_.WaitFor([&] { return faults_->num_calls(Call::kRead) > num_reads; }));
  std::thread disk([this] {
    std::this_thread::sleep_for(milliseconds(50));
    faults_->Hang(false);
  });
  h_.tier.reset();
  disk.join();
  Start();
  EXPECT_TRUE(h_.Load(hot));
  EXPECT_TRUE(h_.Load(other));
}

// The tier ends while the writer moves chunks out of the oldest segment, so the segment stays on
// the disk. A chunk that was moved and then removed must not come back from this segment.
TEST_F(DiskTierFaultsTest, RemoveErasesBothRecordsOfAMovedChunk) {
  const TestChunk hot(1000, 0), other(1001, 0);
  FillBeforeReclaim(hot, other);
  // The writer moves `hot`, and hangs when it reads `other`.
  faults_->HangAfter(Call::kRead, 1);
  ASSERT_TRUE(h_.BeginStore(TestChunk(21, 0)));
  ASSERT_TRUE(h_.WaitFor([&] { return h_.stats.chunks_moved == 1; }));
  h_.tier->Remove(hot.identity.key);
  std::thread disk([this] {
    std::this_thread::sleep_for(milliseconds(50));
    faults_->Hang(false);
  });
  h_.tier.reset();
  disk.join();
  Start();
  EXPECT_FALSE(h_.Load(hot));
  EXPECT_TRUE(h_.Load(other));
}

// A store with a later expiry erases the older record while a load reads this record. The read must
// not count as damage of the disk.
TEST_F(DiskTierFaultsTest, ALoadOfAReplacedRecordIsAMiss) {
  Start();
  const TestChunk chunk(1, 0);
  ASSERT_TRUE(h_.Store(chunk, 0, {.time_to_live = seconds(100)}));
  faults_->Hang(true);
  const auto ticket = h_.tier->Load(chunk.identity);
  ASSERT_TRUE(ticket.has_value());
  ASSERT_TRUE(h_.BeginStore(chunk, 1));
  faults_->corrupt_read_one_in = 1;
  faults_->Hang(false);
  EXPECT_EQ(h_.Await(*ticket), LoadState::kFailed);
  faults_->corrupt_read_one_in = 0;
  ASSERT_TRUE(h_.WaitForStores());
  h_.AddStats();
  for (const uint64_t count : h_.stats.rejected) EXPECT_EQ(count, 0u);
  EXPECT_EQ(h_.stats.misses, 1u);
  EXPECT_TRUE(h_.Load(chunk, 1));
}

TEST_F(DiskTierFaultsTest, AFullDiskTurnsTheTierOffOnceAndIsTriedAgain) {
  h_.options.retry_pause_min = seconds(1);
  Start();
  ASSERT_TRUE(h_.Store(TestChunk(0, 0)));
  faults_->Fail(Call::kWrite, ResourceExhausted("the disk is full"));
  EXPECT_TRUE(h_.BeginStore(TestChunk(1, 0)));
  ASSERT_TRUE(WaitForState(TierState::kOff));
  EXPECT_EQ(h_.tier->last_error(), ResourceExhausted("the disk is full"));
  EXPECT_EQ(h_.stats.times_turned_off, 1u);
  EXPECT_EQ(h_.dropped(StoreDrop::kError), 1u);
  // The tier has nothing, and refuses stores at once.
  EXPECT_FALSE(h_.tier->Has(TestChunk(0, 0).identity.key));
  EXPECT_FALSE(h_.tier->Load(TestChunk(0, 0).identity).has_value());
  EXPECT_FALSE(h_.BeginStore(TestChunk(2, 0)));
  EXPECT_EQ(h_.dropped(StoreDrop::kOff), 1u);
  faults_->Fail(Call::kWrite, absl::OkStatus());
  ASSERT_TRUE(WaitForState(TierState::kOn));
  EXPECT_TRUE(h_.Load(TestChunk(0, 0)));
  EXPECT_TRUE(h_.Store(TestChunk(1, 0)));
  EXPECT_EQ(h_.stats.times_turned_off, 1u);
}

TEST_F(DiskTierFaultsTest, NoRoomForANewSegmentTurnsTheTierOff) {
  Start();
  faults_->Fail(Call::kCreate, ResourceExhausted("no space"));
  EXPECT_FALSE(h_.Store(TestChunk(0, 0)));
  ASSERT_TRUE(WaitForState(TierState::kOff));
  faults_->Fail(Call::kCreate, absl::OkStatus());
  ASSERT_TRUE(WaitForState(TierState::kOn));
  EXPECT_TRUE(h_.Store(TestChunk(0, 0)));
}

TEST_F(DiskTierFaultsTest, ThePauseBetweenAttemptsGrows) {
  faults_->Fail(Call::kList, Unavailable("no list"));
  h_.options.retry_pause_min = milliseconds(5);
  h_.options.retry_pause_max = milliseconds(10'000);
  // Prepare lists the files too, so the fault begins after Create.
  faults_->Fail(Call::kList, absl::OkStatus());
  faults_->Fail(Call::kLock, Unavailable("no lock"));
  const auto begin = std::chrono::steady_clock::now();
  h_.Create(Files());
  ASSERT_TRUE(WaitForState(TierState::kOff));
  ASSERT_TRUE(h_.WaitFor([&] { return faults_->num_calls(Call::kLock) >= 7; }));
  // The attempts come after 0, 5, 15, 35, 75, 155, 315 ms or later.
  EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(315));
  EXPECT_EQ(h_.stats.times_turned_off, 1u);
}

TEST_F(DiskTierFaultsTest, ADiskThatFailsAtTheStartIsTriedAgain) {
  for (const Call call : {Call::kLock, Call::kList, Call::kOpen, Call::kRead}) {
    Start();
    for (uint64_t i = 0; i < 20; ++i) h_.Store(TestChunk(i, 0));
    faults_->Fail(call, PermissionDenied("read-only"));
    h_.Create(Files());
    ASSERT_TRUE(WaitForState(TierState::kOff)) << static_cast<int>(call);
    EXPECT_EQ(h_.tier->last_error(), PermissionDenied("read-only"));
    faults_->Fail(call, absl::OkStatus());
    ASSERT_TRUE(WaitForState(TierState::kOn));
    for (uint64_t i = 0; i < 20; ++i) EXPECT_TRUE(h_.Load(TestChunk(i, 0)));
  }
}

TEST_F(DiskTierFaultsTest, ThreeFailedLoadsTurnTheTierOff) {
  h_.options.retry_pause_min = h_.options.retry_pause_max = seconds(30);
  Start();
  for (uint64_t i = 0; i < 5; ++i) ASSERT_TRUE(h_.Store(TestChunk(i, 0)));
  faults_->Fail(Call::kRead, Unavailable("input/output error"));
  EXPECT_FALSE(h_.Load(TestChunk(0, 0)));
  EXPECT_FALSE(h_.tier->Has(TestChunk(0, 0).identity.key));
  faults_->Fail(Call::kRead, absl::OkStatus());
  EXPECT_TRUE(h_.Load(TestChunk(1, 0)));  // a load that works starts the count again
  faults_->Fail(Call::kRead, Unavailable("input/output error"));
  EXPECT_FALSE(h_.Load(TestChunk(2, 0)));
  EXPECT_FALSE(h_.Load(TestChunk(3, 0)));
  EXPECT_EQ(h_.tier->tier_state(), TierState::kOn);
  EXPECT_FALSE(h_.Load(TestChunk(4, 0)));
  EXPECT_EQ(h_.tier->tier_state(), TierState::kOff);
  EXPECT_EQ(MessageOf(h_.tier->last_error()), "3 loads in a row have failed: input/output error");
  EXPECT_EQ(h_.stats.load_errors, 4u);
}

TEST_F(DiskTierFaultsTest, AHangingLoadFailsAtItsDeadline) {
  Start();
  ASSERT_TRUE(h_.Store(TestChunk(0, 0)));
  ASSERT_TRUE(h_.Store(TestChunk(1, 0)));
  h_.clock.Advance(seconds(60));
  faults_->Hang(true);
  const auto ticket = h_.tier->Load(TestChunk(0, 0).identity);
  const auto cancelled = h_.tier->Load(TestChunk(1, 0).identity);
  h_.tier->Release(*cancelled);
  h_.clock.Advance(h_.options.load_deadline - milliseconds(1));
  EXPECT_FALSE(h_.tier->Poll());
  h_.clock.Advance(milliseconds(1));
  EXPECT_TRUE(h_.tier->Poll());
  EXPECT_EQ(h_.tier->state(*ticket), LoadState::kFailed);
  EXPECT_EQ(h_.tier->tier_state(), TierState::kOff);
  EXPECT_EQ(MessageOf(h_.tier->last_error()),
            "the disk of " + h_.options.directory + " has not ended any load for 5 s");
  h_.tier->Release(*ticket);
  h_.AddStats();
  EXPECT_EQ(h_.stats.loads_late, 2u);
  EXPECT_EQ(h_.stats.slots_free, 14u);  // the I/O threads still use two slots
  faults_->Hang(false);
  EXPECT_TRUE(h_.WaitFor([&] { return h_.stats.slots_free == 16; }));
  ASSERT_TRUE(WaitForState(TierState::kOn));
  EXPECT_TRUE(h_.Load(TestChunk(0, 0)));
  EXPECT_EQ(h_.stats.times_turned_off, 1u);
}

TEST_F(DiskTierFaultsTest, ALateLoadOfABusyDiskDoesNotTurnTheTierOff) {
  Start();
  for (uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(h_.Store(TestChunk(i, 0)));
  h_.clock.Advance(seconds(60));
  const auto first = h_.tier->Load(TestChunk(0, 0).identity);
  h_.clock.Advance(seconds(4));
  EXPECT_EQ(h_.Await(*first), LoadState::kReady);
  faults_->Hang(true);
  // Other loads have ended 1 second before the deadline of this load.
  const auto late = h_.tier->Load(TestChunk(1, 0).identity);
  h_.clock.Advance(seconds(4));
  const auto last = h_.tier->Load(TestChunk(2, 0).identity);
  h_.clock.Advance(milliseconds(500));
  EXPECT_EQ(h_.tier->state(*late), LoadState::kPending);
  EXPECT_EQ(h_.tier->tier_state(), TierState::kOn);
  faults_->Hang(false);
  EXPECT_EQ(h_.Await(*late), LoadState::kReady);
  EXPECT_EQ(h_.Await(*last), LoadState::kReady);
}

TEST_F(DiskTierFaultsTest, AHangingStoreTurnsTheTierOff) {
  Start();
  ASSERT_TRUE(h_.Store(TestChunk(0, 0)));
  h_.clock.Advance(seconds(60));
  faults_->Hang(true);
  ASSERT_TRUE(h_.BeginStore(TestChunk(1, 0)));
  ASSERT_TRUE(h_.BeginStore(TestChunk(2, 0)));
  h_.clock.Advance(h_.options.store_deadline);
  h_.tier->Poll();
  EXPECT_EQ(h_.tier->tier_state(), TierState::kOff);
  EXPECT_TRUE(h_.tier->has_pending_stores());
  faults_->Hang(false);
  ASSERT_TRUE(WaitForState(TierState::kOn));
  EXPECT_TRUE(h_.WaitForStores());
  EXPECT_EQ(h_.tier->stats().slots_free, 16u);
}

TEST_F(DiskTierFaultsTest, TheDestructorDoesNotWaitForAHangingDisk) {
  h_.options.stop_limit = milliseconds(50);
  Start();
  ASSERT_TRUE(h_.Store(TestChunk(0, 0)));
  faults_->Hang(true);
  ASSERT_TRUE(h_.tier->Load(TestChunk(0, 0).identity).has_value());
  ASSERT_TRUE(h_.BeginStore(TestChunk(1, 0)));
  const auto begin = std::chrono::steady_clock::now();
  const int num_wakes = h_.num_wakes;
  h_.tier.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(5));
  faults_->Hang(false);
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(h_.num_wakes, num_wakes);
}

TEST_F(DiskTierFaultsTest, RemoveAndClearWhileTheTierIsOffApplyLater) {
  Start();
  for (uint64_t i = 0; i < 5; ++i) ASSERT_TRUE(h_.Store(TestChunk(1, i)));
  ASSERT_TRUE(h_.Store(TestChunk(2, 0)));
  const auto turn_off = [&] {
    faults_->Fail(Call::kWrite, Unavailable("no write"));
    faults_->Fail(Call::kLock, Unavailable("no lock"));
    h_.BeginStore(TestChunk(9, 0));
    ASSERT_TRUE(WaitForState(TierState::kOff));
  };
  const auto turn_on = [&] {
    faults_->Fail(Call::kWrite, absl::OkStatus());
    faults_->Fail(Call::kLock, absl::OkStatus());
    ASSERT_TRUE(WaitForState(TierState::kOn));
  };
  turn_off();
  h_.tier->Remove(TestChunk(1, 2).identity.key);
  turn_on();
  EXPECT_TRUE(h_.Load(TestChunk(1, 1)));
  for (uint64_t i = 2; i < 5; ++i) EXPECT_FALSE(h_.tier->Has(TestChunk(1, i).identity.key));
  EXPECT_TRUE(h_.Load(TestChunk(2, 0)));
  turn_off();
  h_.tier->Clear();
  turn_on();
  EXPECT_EQ(h_.tier->stats().chunks, 0u);
  EXPECT_TRUE(h_.directory.Segments().empty());
}

TEST_F(DiskTierFaultsTest, RemoveBeforeTheTierIsOnApplies) {
  Start();
  for (uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(h_.Store(TestChunk(1, i)));
  faults_->Fail(Call::kLock, Unavailable("no lock"));
  h_.Create(Files());
  ASSERT_TRUE(WaitForState(TierState::kOff));
  h_.tier->Remove(TestChunk(1, 1).identity.key);
  faults_->Fail(Call::kLock, absl::OkStatus());
  ASSERT_TRUE(WaitForState(TierState::kOn));
  EXPECT_TRUE(h_.Load(TestChunk(1, 0)));
  EXPECT_FALSE(h_.Load(TestChunk(1, 1)));
  EXPECT_FALSE(h_.Load(TestChunk(1, 2)));
}

// The tier turns on twice before the engine thread calls Poll. The writer builds the second index
// before it erases the removed chunk.
TEST_F(DiskTierFaultsTest, RemoveAppliesIfTheTierTurnsOnTwiceBeforePoll) {
  h_.options.retry_pause_min = h_.options.retry_pause_max = milliseconds(1);
  Start();
  const TestChunk removed(0, 0), kept(3, 0);
  for (uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(h_.Store(TestChunk(i, 0)));
  // The erasure of another chunk fails, so the writer turns the tier off, and then on again.
  for (uint64_t i = 1; i < 3; ++i) {
    faults_->Fail(Call::kWrite, Unavailable("no write"));
    const int num_writes = faults_->num_calls(Call::kWrite);
    h_.tier->Remove(TestChunk(i, 0).identity.key);
    while (faults_->num_calls(Call::kWrite) == num_writes) std::this_thread::yield();
    faults_->Fail(Call::kWrite, absl::OkStatus());
    std::this_thread::sleep_for(milliseconds(50));
  }
  faults_->HangAfter(Call::kWrite, 0);
  h_.tier->Remove(removed.identity.key);
  h_.tier->Poll();
  EXPECT_FALSE(h_.tier->Has(removed.identity.key));
  EXPECT_FALSE(h_.Load(removed));
  faults_->Hang(false);
  ASSERT_TRUE(WaitForState(TierState::kOn));
  for (uint64_t i = 0; i < 3; ++i) EXPECT_FALSE(h_.Load(TestChunk(i, 0))) << i;
  EXPECT_TRUE(h_.Load(kept));
}

// The writer has written the chunk, but the engine thread does not know the result.
TEST_F(DiskTierFaultsTest, RemoveErasesAChunkThatWasJustWritten) {
  Start();
  ASSERT_TRUE(h_.Store(TestChunk(1, 0)));
  const int before = faults_->num_calls(Call::kWrite);
  ASSERT_TRUE(h_.BeginStore(TestChunk(1, 1)));
  while (faults_->num_calls(Call::kWrite) == before) std::this_thread::yield();
  h_.tier->Remove(TestChunk(1, 0).identity.key);
  Start();
  EXPECT_FALSE(h_.Load(TestChunk(1, 0)));
  EXPECT_FALSE(h_.Load(TestChunk(1, 1)));
}

// The writer has written the last record of a segment, and the write of the table fails. The tier
// stays off until it ends.
TEST_F(DiskTierFaultsTest, RemoveErasesAChunkWhoseTableIsNotWritten) {
  h_.options.retry_pause_min = h_.options.retry_pause_max = seconds(30);
  const TestChunk removed(1000, 0), kept(0, 0);
  Start();
  for (uint64_t i = 0; i < 15; ++i) ASSERT_TRUE(h_.Store(TestChunk(i, 0)));
  const int num_writes = faults_->num_calls(Call::kWrite);
  faults_->HangAfter(Call::kWrite, 1);
  ASSERT_TRUE(h_.BeginStore(removed));
  while (faults_->num_calls(Call::kWrite) < num_writes + 2) std::this_thread::yield();
  h_.tier->Remove(removed.identity.key);
  FailHangingWrites();
  Start();
  EXPECT_FALSE(h_.Load(removed));
  EXPECT_TRUE(h_.Load(kept));
}

// As above, but a reclaim moves the last record to the segment.
TEST_F(DiskTierFaultsTest, RemoveErasesAMovedChunkWhoseTableIsNotWritten) {
  h_.options.retry_pause_min = h_.options.retry_pause_max = seconds(30);
  const TestChunk hot(1000, 0), removed(1001, 0);
  FillBeforeReclaim(hot, removed);
  int num_writes = faults_->num_calls(Call::kWrite);
  // The second segment has room for two more records then.
  for (uint64_t i = 21; i < 28; ++i) ASSERT_TRUE(h_.BeginStore(TestChunk(i, 0)));
  while (faults_->num_calls(Call::kWrite) < num_writes + 7) std::this_thread::yield();
  num_writes = faults_->num_calls(Call::kWrite);
  faults_->HangAfter(Call::kWrite, 2);
  while (faults_->num_calls(Call::kWrite) < num_writes + 3) {
    h_.tier->Poll();  // allows the writer to reclaim
    std::this_thread::yield();
  }
  h_.tier->Remove(removed.identity.key);
  FailHangingWrites();
  Start();
  EXPECT_FALSE(h_.Load(removed));
  EXPECT_TRUE(h_.Load(hot));
}

// The segment of a chunk is reclaimed between Load and the read. The chunk was moved.
TEST_F(DiskTierFaultsTest, ALoadFollowsAMovedChunk) {
  const TestChunk hot(1000, 0);
  MoveWithoutPoll(hot);
  EXPECT_TRUE(h_.Load(hot));
  h_.AddStats();
  EXPECT_EQ(h_.stats.chunks_moved, 1u);
}

TEST_F(DiskTierFaultsTest, RemoveErasesAChunkThatWasJustMoved) {
  const TestChunk hot(1000, 0);
  MoveWithoutPoll(hot);
  h_.tier->Remove(hot.identity.key);
  Start();
  EXPECT_FALSE(h_.Load(hot));
  EXPECT_TRUE(h_.Load(TestChunk(20, 0)));
}

TEST_F(DiskTierFaultsTest, CorruptReadsAreRejected) {
  Start();
  for (uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(h_.Store(TestChunk(i, 0)));
  faults_->corrupt_read_one_in = 1;
  for (uint64_t i = 0; i < 100; ++i) {
    EXPECT_FALSE(h_.Load(TestChunk(i, 0))) << i;
    EXPECT_FALSE(h_.tier->Has(TestChunk(i, 0).identity.key));
  }
  EXPECT_GT(h_.rejected(RejectReason::kChecksum), 80u);
  EXPECT_EQ(h_.tier->tier_state(), TierState::kOn);
}

TEST_F(DiskTierFaultsTest, WritesThatAreCorruptOrIncompleteAreRejected) {
  Start();
  faults_->corrupt_write_one_in = 3;
  faults_->short_write_one_in = 3;
  for (uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(h_.Store(TestChunk(i, 0)));
  uint64_t num_good = 0;
  for (uint64_t i = 0; i < 100; ++i) num_good += h_.Load(TestChunk(i, 0));
  EXPECT_LT(num_good, 80u);
  EXPECT_GT(num_good, 10u);
  Start();
  uint64_t num_after_restart = 0;
  for (uint64_t i = 0; i < 100; ++i) num_after_restart += h_.Load(TestChunk(i, 0));
  EXPECT_LE(num_after_restart, num_good);
}

TEST_F(DiskTierFaultsTest, ReadsMayEndInAnyOrder) {
  faults_->reorders_reads = true;
  faults_->delay_max_us = 300;
  Start();
  for (uint64_t i = 0; i < 16; ++i) ASSERT_TRUE(h_.Store(TestChunk(i, 0)));
  for (int round = 0; round < 10; ++round) {
    std::vector<LoadTicket> tickets;
    for (uint64_t i = 0; i < 16; ++i) tickets.push_back(*h_.tier->Load(TestChunk(i, 0).identity));
    ASSERT_TRUE(h_.WaitFor([&] {
      return std::ranges::all_of(
          tickets, [&](LoadTicket t) { return h_.tier->state(t) == LoadState::kReady; });
    }));
    for (uint64_t i = 0; i < 16; ++i) {
      EXPECT_TRUE(HasPayload(TestChunk(i, 0).identity.key, 0, h_.tier->bytes(tickets[i])));
      h_.tier->Release(tickets[i]);
    }
  }
}

}  // namespace
}  // namespace incipit
