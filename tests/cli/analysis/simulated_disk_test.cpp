// Tests the simulated disk: the times of writes, the bounded queue and the reclaiming of segments.
#include "cli/analysis/simulated_disk.h"

#include <gtest/gtest.h>

#include <initializer_list>

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

// Writes the chunks 1 to 8, which fill both segments.
void FillSegments(SimulatedDisk& disk) {
  StoreAll(disk, {1, 2, 3, 4}, 0);
  disk.Advance(10);
  StoreAll(disk, {5, 6, 7, 8}, 10);
  disk.Advance(20);
  ASSERT_EQ(disk.counts().stored, 8);
}

TEST(SimulatedDiskTest, TheOldestSegmentIsReclaimedFirst) {
  SimulatedDisk disk(kSmallDisk);
  FillSegments(disk);
  for (uint32_t chunk = 1; chunk <= 8; ++chunk) EXPECT_TRUE(disk.Has(chunk));
  disk.Store(9, 20);
  disk.Advance(21);
  for (uint32_t chunk = 1; chunk <= 4; ++chunk) EXPECT_FALSE(disk.Has(chunk));
  for (uint32_t chunk = 5; chunk <= 9; ++chunk) EXPECT_TRUE(disk.Has(chunk));
  EXPECT_EQ(disk.counts().reclaimed, 4);
  disk.Store(1, 21);  // a lost chunk may be stored again
  disk.Advance(22);
  EXPECT_TRUE(disk.Has(1));
}

// Chunks 1, 2 and 3 of the oldest segment were loaded. Half of a segment, that is two chunks, may
// move: the chunks that were loaded last.
TEST(SimulatedDiskTest, ChunksThatWereLoadedMoveToTheNewestSegment) {
  SimulatedDisk disk(kSmallDisk);
  FillSegments(disk);
  for (const uint32_t chunk : {2, 1, 3}) disk.Load(chunk);
  disk.Store(9, 20);
  disk.Advance(21);
  EXPECT_TRUE(disk.Has(1));  // can be loaded while it moves
  EXPECT_TRUE(disk.Has(3));
  EXPECT_FALSE(disk.Has(2));
  EXPECT_FALSE(disk.Has(4));
  EXPECT_EQ(disk.counts().moved, 0);
  disk.Advance(23);  // the write of each moved chunk takes 1 s
  EXPECT_EQ(disk.counts().moved, 2);
  EXPECT_EQ(disk.counts().loaded, 3);
  // The newest segment has chunk 9 and the moved chunks. Chunk 3 is loaded, and chunk 1 is not.
  // After two more segments are full, only chunk 3 is left.
  disk.Load(3);
  StoreAll(disk, {10, 11, 12, 13, 14, 15}, 23);
  disk.Advance(40);
  EXPECT_FALSE(disk.Has(1));
  EXPECT_TRUE(disk.Has(3));
}

TEST(SimulatedDiskTest, AFullQueueAlsoDropsMoves) {
  SimulatedDisk disk(kSmallDisk);
  FillSegments(disk);
  for (const uint32_t chunk : {1, 2, 3, 4}) disk.Load(chunk);
  // Chunk 11 is being written when the oldest segment is reclaimed, and 5 chunks wait.
  StoreAll(disk, {11, 12, 13, 14, 15, 16}, 20);
  disk.Advance(21);
  EXPECT_EQ(disk.counts().dropped_stores, 0);
  EXPECT_EQ(disk.counts().reclaimed, 4);
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
