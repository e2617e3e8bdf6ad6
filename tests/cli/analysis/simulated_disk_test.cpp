// Tests the simulated disk: the times of writes, the bounded queue and the reclaiming of segments.
#include "cli/analysis/simulated_disk.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <set>

namespace incipit {
namespace {

// A disk of 2 segments with 4 chunks each. The write of a chunk takes 1 s, and the queue has room
// for 6 chunks.
constexpr SimulatedDiskOptions kSmallDisk = {.chunk_bytes = 10,
                                             .segments_max = 2,
                                             .write_bytes_per_s = 10,
                                             .queue_bytes = 60,
                                             .segment_bytes = 45};

void StoreAll(SimulatedDisk& disk, std::initializer_list<uint32_t> chunks, double when) {
  for (const uint32_t chunk : chunks) disk.Store(chunk, when);
}

TEST(SimulatedDiskTest, AChunkIsThereWhenItsWriteEnds) {
  SimulatedDisk disk(kSmallDisk);
  StoreAll(disk, {1, 2}, 5);
  disk.Advance(5.9);
  EXPECT_FALSE(disk.Has(1));
  disk.Advance(6);
  EXPECT_TRUE(disk.Has(1));
  disk.Advance(6.9);
  EXPECT_FALSE(disk.Has(2));  // chunks are written one after the other
  disk.Advance(7);
  EXPECT_TRUE(disk.Has(2));
  // The disk was idle for 13 s, so the next write begins at once.
  disk.Store(3, 20);
  disk.Advance(20.9);
  EXPECT_FALSE(disk.Has(3));
  disk.Advance(21);
  EXPECT_TRUE(disk.Has(3));
  EXPECT_EQ(disk.counts().stored, 3);
}

TEST(SimulatedDiskTest, ChunksEnterTheQueueInTheOrderOfTheirTimes) {
  SimulatedDisk disk(kSmallDisk);
  disk.Store(1, 2);
  disk.Store(2, 0);
  disk.Advance(1);
  EXPECT_TRUE(disk.Has(2));
  disk.Advance(3);
  EXPECT_TRUE(disk.Has(1));
}

TEST(SimulatedDiskTest, AKnownChunkIsNotStoredAgain) {
  SimulatedDisk disk(kSmallDisk);
  disk.Store(1, 0);
  disk.Store(1, 0);  // announced
  disk.Advance(0.5);
  disk.Store(1, 0.5);  // queued
  disk.Advance(10);
  disk.Store(1, 10);  // written
  disk.Advance(20);
  EXPECT_EQ(disk.counts().stored, 1);
}

TEST(SimulatedDiskTest, AFullQueueDropsChunksWhichMayBeStoredLater) {
  SimulatedDisk disk(kSmallDisk);
  StoreAll(disk, {1, 2, 3, 4, 5, 6, 7, 8}, 0);
  disk.Advance(6);
  EXPECT_EQ(disk.counts().stored, 6);
  EXPECT_EQ(disk.counts().dropped_stores, 2);
  EXPECT_FALSE(disk.Has(7));
  disk.Store(7, 6);
  disk.Advance(7);
  EXPECT_TRUE(disk.Has(7));
}

TEST(SimulatedDiskTest, WritesWithoutLimitTakeNoTime) {
  SimulatedDiskOptions options = kSmallDisk;
  options.write_bytes_per_s = 0;
  SimulatedDisk disk(options);
  StoreAll(disk, {1, 2, 3, 4, 5, 6, 7, 8}, 3);
  disk.Advance(3);
  EXPECT_EQ(disk.counts().stored, 8);
  EXPECT_EQ(disk.counts().dropped_stores, 0);
}

// A disk with the chunks 1 to 10: segment 1 has the chunks 1 to 4, segment 2 has 5 to 8, and
// segment 3, the newest segment, has room for two more chunks.
class FullDiskTest : public testing::Test {
 protected:
  void Fill() {
    StoreAll(disk_, {1, 2, 3, 4}, 0);
    disk_.Advance(10);
    StoreAll(disk_, {5, 6, 7, 8}, 10);
    disk_.Advance(20);
    disk_.Store(9, 20);
    disk_.Advance(21);
    ASSERT_EQ(disk_.counts().stored, 9);
  }
  // Half of segment 3 is written, so a segment is reclaimed.
  void FillHalfOfTheNewestSegment() {
    disk_.Store(10, 21);
    disk_.Advance(22);
  }
  std::set<uint32_t> Chunks() const {
    std::set<uint32_t> chunks;
    for (uint32_t chunk = 1; chunk < 20; ++chunk) {
      if (disk_.Has(chunk)) chunks.insert(chunk);
    }
    return chunks;
  }

  SimulatedDisk disk_{[] {
    SimulatedDiskOptions options = kSmallDisk;
    options.segments_max = 3;
    return options;
  }()};
};

TEST_F(FullDiskTest, ASegmentThatWasNotUsedIsReclaimed) {
  Fill();
  EXPECT_EQ(Chunks(), (std::set<uint32_t>{1, 2, 3, 4, 5, 6, 7, 8, 9}));
  FillHalfOfTheNewestSegment();
  EXPECT_EQ(Chunks(), (std::set<uint32_t>{5, 6, 7, 8, 9, 10}));
  EXPECT_EQ(disk_.counts().reclaimed, 4);
  disk_.Store(1, 22);  // a lost chunk may be stored again
  disk_.Advance(23);
  EXPECT_TRUE(disk_.Has(1));
}

// More than half of segment 1 was used, but nothing of segment 2. A store of a chunk that the disk
// has is a use, too.
TEST_F(FullDiskTest, AUsedSegmentStays) {
  Fill();
  for (const uint32_t chunk : {1, 2}) disk_.Load(chunk);
  disk_.Store(3, 21);
  FillHalfOfTheNewestSegment();
  EXPECT_EQ(Chunks(), (std::set<uint32_t>{1, 2, 3, 4, 9, 10}));
  EXPECT_EQ(disk_.counts().moved, 0);
  EXPECT_EQ(disk_.counts().stored, 10);
}

// The half of segment 1 that was used moves to segment 3.
TEST_F(FullDiskTest, UsedChunksMoveToTheNewestSegment) {
  Fill();
  for (const uint32_t chunk : {3, 2}) disk_.Load(chunk);
  FillHalfOfTheNewestSegment();
  EXPECT_EQ(Chunks(), (std::set<uint32_t>{2, 3, 5, 6, 7, 8, 9, 10}));  // also while they move
  EXPECT_EQ(disk_.counts().moved, 0);
  EXPECT_EQ(disk_.counts().reclaimed, 2);
  disk_.Advance(24);  // the write of each moved chunk takes 1 s
  EXPECT_EQ(disk_.counts().moved, 2);
  EXPECT_EQ(disk_.counts().loaded, 2);
  // Segment 3 is full now, and the disk has room for another segment.
  StoreAll(disk_, {11, 12, 13, 14}, 24);
  disk_.Advance(30);
  EXPECT_EQ(Chunks(), (std::set<uint32_t>{2, 3, 9, 10, 11, 12, 13, 14}));
}

TEST_F(FullDiskTest, AFullQueueAlsoDropsMoves) {
  Fill();
  for (const uint32_t chunk : {1, 2}) disk_.Load(chunk);
  // When the write of chunk 10 ends, 5 chunks wait, and 1 chunk can move.
  StoreAll(disk_, {10, 11, 12, 13, 14, 15}, 21);
  disk_.Advance(22);
  EXPECT_EQ(disk_.counts().dropped_stores, 0);
  EXPECT_EQ(disk_.counts().reclaimed, 3);
}

TEST(SimulatedDiskTest, AChunkMayBeLargerThanASegment) {
  SimulatedDiskOptions options = kSmallDisk;
  options.segment_bytes = 4;
  SimulatedDisk disk(options);
  StoreAll(disk, {1, 2, 3}, 0);
  disk.Advance(10);
  EXPECT_FALSE(disk.Has(1));
  EXPECT_TRUE(disk.Has(2));
  EXPECT_TRUE(disk.Has(3));
}

}  // namespace
}  // namespace incipit
