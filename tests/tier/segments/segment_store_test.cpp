// Tests the segments of one directory without threads.
#include "tier/segments/segment_store.h"

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <vector>

#include "base/status.h"
#include "tests/tier/faulty_file_system.h"
#include "tests/tier/tier_chunks.h"
#include "tier/files/posix_file_system.h"

namespace incipit {
namespace {

class SegmentStoreTest : public testing::Test {
 protected:
  SegmentStoreTest()
      : files_(std::make_unique<FaultyFileSystem>(
            MakePosixFileSystem(directory_.path(), IoMethod::kPread), faults_)),
        record_(3 * kPageBytes) {
    EXPECT_TRUE(files_->Prepare().ok());
    Open();
  }

  void Open() {
    const absl::Status status = TryOpen();
    ASSERT_TRUE(status.ok()) << status;
  }
  absl::Status TryOpen() {
    index_ = std::make_unique<ChunkIndex>(1000);
    store_ = std::make_unique<SegmentStore>(
        *files_, SegmentStoreOptions{.fingerprint = {},
                                     .record = RecordLayout(kTestShape),
                                     .segment_bytes = 50 * kPageBytes,  // 16 records
                                     .size_bytes = 200 * kPageBytes});
    return store_->Open(0, *index_);
  }
  ChunkLocation Append(const TestChunk& chunk) {
    EncodeRecord(RecordLayout(kTestShape), {}, chunk.identity, {}, record_.bytes());
    SealRecord(record_.bytes());
    const auto at = store_->Append(record_.bytes());
    EXPECT_TRUE(at.ok()) << at.status();
    EXPECT_TRUE(store_->SealIfFull().ok());
    index_->Insert({.key = chunk.identity.key, .at = *at});
    return *at;
  }
  bool Has(const TestChunk& chunk) const { return index_->Find(chunk.identity.key) != nullptr; }
  // Erases the record of `chunk` if the index has the chunk.
  void Remove(const TestChunk& chunk) {
    const IndexedChunk* const found = index_->Find(chunk.identity.key);
    if (found == nullptr) return;
    EXPECT_TRUE(store_->Erase(found->at).ok());
    index_->Erase(chunk.identity.key, found->at);
  }
  // Changes one bit of the first segment. A second call with the same offset restores the bit.
  void FlipBit(uint64_t offset) const {
    std::fstream file(directory_.Segments().front(),
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    const auto byte = static_cast<char>(file.get() ^ 1);
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(byte);
  }

  // Position of a byte of the checksum of a table.
  static constexpr uint64_t kTableChecksum = 50 * kPageBytes - 1;

  TestDirectory directory_;
  const std::shared_ptr<DiskFaults> faults_ = std::make_shared<DiskFaults>();
  std::unique_ptr<FileSystem> files_;
  PageBuffer record_;
  std::unique_ptr<SegmentStore> store_;
  std::unique_ptr<ChunkIndex> index_;
};

// A process that ends while it moves a record leaves two copies.
TEST_F(SegmentStoreTest, TheOlderCopyOfARecordDoesNotComeBack) {
  const TestChunk chunk(1, 0);
  const ChunkLocation older = Append(chunk);
  for (uint64_t i = 0; i < 20; ++i) Append(TestChunk(100 + i, 0));
  const ChunkLocation newer = Append(chunk);
  EXPECT_NE(older.segment, newer.segment);
  Open();
  ASSERT_TRUE(Has(chunk));
  EXPECT_EQ(index_->Find(chunk.identity.key)->at, newer);
  ASSERT_TRUE(store_->Erase(newer).ok());
  // The table of the older segment still lists the chunk, but the record is not valid.
  EXPECT_EQ(store_->Read(older, 0, record_.bytes()).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(store_->Read(newer, 0, record_.bytes()).code(), absl::StatusCode::kOutOfRange);
}

TEST_F(SegmentStoreTest, AnErasedRecordOfTheNewestSegmentIsGoneAfterAStart) {
  const ChunkLocation erased = Append(TestChunk(1, 0));
  Append(TestChunk(2, 0));
  ASSERT_TRUE(store_->Erase(erased).ok());
  Open();
  EXPECT_FALSE(Has(TestChunk(1, 0)));
  EXPECT_TRUE(Has(TestChunk(2, 0)));
  EXPECT_EQ(Append(TestChunk(3, 0)), (ChunkLocation{1, 2}));
}

// One start reads a wrong bit of the table of the newest segment, whose last records were erased.
TEST_F(SegmentStoreTest, ADamagedTableOfTheNewestSegmentDoesNotComeBack) {
  for (uint64_t i = 0; i < 16; ++i) Append(TestChunk(i, 0));
  Remove(TestChunk(14, 0));
  Remove(TestChunk(15, 0));
  FlipBit(kTableChecksum);
  Open();
  const TestChunk stored(100, 0);
  Append(stored);
  FlipBit(kTableChecksum);
  Open();
  EXPECT_TRUE(Has(stored));
  EXPECT_FALSE(Has(TestChunk(14, 0)));
  // A removed chunk must not come back after the next damage of the table.
  Remove(stored);
  FlipBit(kTableChecksum);
  Open();
  EXPECT_FALSE(Has(stored));
  EXPECT_TRUE(Has(TestChunk(0, 0)));
}

// A start reads a wrong bit of a table and of a record. The start fails in its first or second
// write, and the next start reads the right bytes of the record.
TEST_F(SegmentStoreTest, ADamagedRecordDoesNotComeBackIfItsErasureFails) {
  constexpr uint64_t kRecord = 3, kRecordOffset = kPageBytes + kRecord * 3 * kPageBytes;
  const TestChunk damaged(kRecord, 0);
  for (const int num_writes : {0, 1}) {
    SCOPED_TRACE(num_writes);
    for (uint64_t i = 0; i < 16; ++i) Append(TestChunk(i, 0));
    FlipBit(kTableChecksum);
    FlipBit(kRecordOffset);
    faults_->FailAfter(DiskFaults::Call::kWrite, num_writes, Unavailable("no write"));
    EXPECT_EQ(TryOpen(), Unavailable("no write"));
    faults_->Fail(DiskFaults::Call::kWrite, absl::OkStatus());
    FlipBit(kRecordOffset);
    Open();
    // The chunk is removed, and the next start reads all records.
    Remove(damaged);
    FlipBit(kTableChecksum);
    Open();
    EXPECT_FALSE(Has(damaged));
    EXPECT_TRUE(Has(TestChunk(kRecord + 1, 0)));
    ASSERT_TRUE(store_->RemoveAll().ok());
  }
}

TEST_F(SegmentStoreTest, NumbersOfSegmentsAreNotUsedTwice) {
  EXPECT_EQ(Append(TestChunk(1, 0)).segment, 1u);
  ASSERT_TRUE(store_->RemoveAll().ok());
  EXPECT_EQ(store_->num_bytes(), 0u);
  EXPECT_EQ(Append(TestChunk(1, 0)).segment, 2u);
  EXPECT_TRUE(store_->Erase({1, 0}).ok());  // a stale location
  EXPECT_TRUE(store_->Read({2, 0}, 0, record_.bytes()).ok());
}

TEST_F(SegmentStoreTest, AsksForRoomBeforeItIsNeeded) {
  for (uint64_t i = 0; i < 3 * 16 + 7; ++i) Append(TestChunk(i, 0));
  EXPECT_EQ(store_->num_bytes(), 200 * kPageBytes);
  EXPECT_FALSE(store_->IsHalfFull());
  Append(TestChunk(1000, 0));
  EXPECT_TRUE(store_->IsHalfFull());
  const auto found = store_->SegmentsToReclaim();
  ASSERT_TRUE(found.ok() && found->has_value());
  EXPECT_EQ((*found)->own, (std::vector<uint32_t>{1, 2, 3}));
  EXPECT_EQ((*found)->oldest_other, kNoSegment);
  for (uint64_t i = 0; i < 8; ++i) Append(TestChunk(2000 + i, 0));
  EXPECT_FALSE(store_->CanAppend());
  ASSERT_TRUE(store_->RemoveSegment(1).ok());
  EXPECT_TRUE(store_->CanAppend());
  EXPECT_FALSE(store_->SegmentsToReclaim()->has_value());
}

TEST_F(SegmentStoreTest, KeepsAtMostSomeFilesOpen) {
  for (uint64_t i = 0; i < 40; ++i) Append(TestChunk(i, 0));
  const auto a = store_->files().Get(1), b = store_->files().Get(1);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(*a, *b);
  ASSERT_TRUE(store_->RemoveSegment(1).ok());
  EXPECT_TRUE((*a)->Read(0, record_.bytes()).ok());  // an open file stays readable
  EXPECT_TRUE(absl::IsNotFound(store_->files().Get(1).status()));
}

}  // namespace
}  // namespace incipit
