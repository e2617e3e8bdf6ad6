// Tests `incipit cache verify` on folders with valid, damaged and changing files.
#include "cli/cache/verify_folder.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/cli/cache/cache_test_folder.h"
#include "tier/segments/segment.h"

namespace incipit {
namespace {

constexpr char kFirst[] = "abababababababab-00000001.segment";
constexpr char kSecond[] = "abababababababab-00000002.segment";

class VerifyFolderTest : public CacheFolderTest {
 protected:
  CacheVerification Verify(int64_t now_s = kNow) {
    auto result = VerifyFolder(Folder(), now_s, progress_);
    EXPECT_TRUE(result.ok()) << result.status();
    return *std::move(result);
  }
  void ExpectOneDamage(const std::string& segment, int64_t index, const std::string& reason) {
    const CacheVerification result = Verify();
    ASSERT_EQ(result.num_damaged(), 1u);
    EXPECT_EQ(result.damages[0].segment, segment);
    EXPECT_EQ(result.damages[0].index, index);
    EXPECT_EQ(result.damages[0].reason, reason);
  }
};

TEST_F(VerifyFolderTest, AllRecordsOfAFolderAreGood) {
  Fill(1, 18);
  const CacheVerification result = Verify();
  EXPECT_EQ(result.num_segments, 2u);
  EXPECT_EQ(result.num_good, 18u);
  EXPECT_EQ(result.num_damaged(), 0u);
  EXPECT_EQ(result.num_erased, 0u);
  EXPECT_EQ(result.num_changing, 0u);
  EXPECT_EQ(result.num_bytes, 2 * TierHarness::kSegmentBytes);
}

TEST_F(VerifyFolderTest, NamesEachDamagedRecord) {
  Fill(1, 18);
  DamageRecord(0, 7);
  ExpectOneDamage(kFirst, 7, "checksum");
  DamageRecord(0, 7);  // restores the byte
  DamageRecord(1, 1, offsetof(RecordHeader, magic));
  ExpectOneDamage(kSecond, 1, "magic");
  DamageRecord(1, 1, offsetof(RecordHeader, magic));
  DamageRecord(0, 15, offsetof(RecordHeader, num_tokens));
  const CacheVerification result = Verify();
  EXPECT_EQ(result.num_good, 17u);
  EXPECT_EQ(result.num_damaged(), 1u);
}

TEST_F(VerifyFolderTest, NamesDamagedSegments) {
  Fill(1, 18);
  Damage(0, 10);
  ExpectOneDamage(kFirst, CacheDamage::kSegment, std::string(kFirst) + ": the header is damaged");
  Damage(0, 10);
  const SegmentLayout layout(TierHarness::kSegmentBytes, kRecordBytes);
  Damage(0, layout.table_offset() + 200);
  ExpectOneDamage(kFirst, CacheDamage::kSegment, std::string(kFirst) + ": the table is damaged");
  EXPECT_EQ(Verify().num_good, 18u);
  std::filesystem::resize_file(h_.directory.Segments()[0], kPageBytes + 5 * kRecordBytes);
  ExpectOneDamage(kFirst, CacheDamage::kSegment,
                  std::string(kFirst) + ": the file has 65536 of 204800 bytes");
  EXPECT_EQ(Verify().num_good, 7u);
}

// The checksums of the records and of the table are right, but the table does not describe the
// record.
TEST_F(VerifyFolderTest, ComparesTheTableWithTheRecords) {
  Fill(1, 16);
  const auto path = h_.directory.Segments()[0];
  std::string bytes = Contents(path);
  std::string first = bytes.substr(kPageBytes, kRecordBytes);
  bytes.replace(kPageBytes, kRecordBytes, bytes, kPageBytes + kRecordBytes, kRecordBytes);
  std::ofstream(path, std::ios::binary) << bytes;
  ExpectOneDamage(kFirst, 0, "table");
}

TEST_F(VerifyFolderTest, ErasedRecordsAreNotDamaged) {
  Fill(1, 18);
  h_.Start();
  h_.tier->Remove(TestKey(1, 17));  // chunks 16 and 17, in the open segment
  h_.tier->Remove(TestKey(1, 15));  // chunks 14 and 15, in the sealed segment
  h_.tier.reset();
  const CacheVerification result = Verify();
  EXPECT_EQ(result.num_good, 14u);
  EXPECT_EQ(result.num_erased, 2u);
  EXPECT_EQ(result.num_damaged(), 0u);
}

TEST_F(VerifyFolderTest, CountsExpiredRecords) {
  h_.Start();
  const TestChunk chunk(1, 0);
  const auto ticket =
      h_.tier->BeginStore(chunk.identity, {.time_to_live = std::chrono::seconds(50)});
  ASSERT_TRUE(ticket.has_value());
  h_.tier->FinishStore(*ticket);
  ASSERT_TRUE(h_.WaitForStores());
  h_.tier.reset();
  EXPECT_EQ(Verify(1'000'049).num_good, 1u);
  EXPECT_EQ(Verify(1'000'050).num_expired, 1u);
  EXPECT_EQ(Verify(1'000'050).num_damaged(), 0u);
}

TEST_F(VerifyFolderTest, SurvivesRandomBytes) {
  std::mt19937_64 random(2);
  for (uint64_t round = 0; round < 5; ++round) {
    Fill(100 + round, 40);
    for (int i = 0; i < 20; ++i) {
      OverwriteRandomly(random);
      Verify();
    }
  }
}

// A server may write a record between or during the two reads.
TEST_F(VerifyFolderTest, ARecordThatChangesIsNotDamaged) {
  Fill(1, 18);
  for (const bool is_complete : {true, false}) {
    DamageRecord(1, 1);
    const auto first = LookFirst(Folder(), kNow, progress_);
    ASSERT_TRUE(first.ok()) << first.status();
    ASSERT_EQ(first->suspects.size(), 1u);
    DamageRecord(1, 1);  // restores the byte
    if (!is_complete) DamageRecord(1, 1, 9000);
    const auto result = LookAgain(Folder(), kNow, *first);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->num_damaged(), 0u);
    EXPECT_EQ(result->num_good, is_complete ? 18u : 17u);
    EXPECT_EQ(result->num_changing, is_complete ? 0u : 1u);
    EXPECT_EQ(result->num_segments, 2u);
  }
  ExpectOneDamage(kSecond, 1, "checksum");
}

TEST_F(VerifyFolderTest, ASegmentThatVanishesIsNotDamaged) {
  Fill(1, 18);
  DamageRecord(0, 1);
  const auto first = LookFirst(Folder(), kNow, progress_);
  ASSERT_TRUE(first.ok()) << first.status();
  std::filesystem::remove(h_.directory.Segments()[0]);
  const auto result = LookAgain(Folder(), kNow, *first);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->num_damaged(), 0u);
  EXPECT_EQ(result->num_good, 2u);
}

TEST_F(VerifyFolderTest, ASegmentThatATierCreatesIsNotDamaged) {
  Fill(1, 3);
  const std::string name = SegmentName(h_.options.fingerprint, 2);
  std::ofstream(std::filesystem::path(h_.directory.path()) / name).close();
  const auto result = VerifyFolder(Folder(), kNow, progress_);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->num_damaged(), 0u);
  EXPECT_EQ(result->num_good, 3u);
}

// A tier that works must never seem to be damaged.
TEST_F(VerifyFolderTest, ATierThatWritesIsNotDamaged) {
  h_.Start();
  std::atomic<bool> ends = false;
  std::thread verifier([&] {
    Progress progress("test");
    do {
      const auto result = VerifyFolder(Folder(), kNow, progress);
      ASSERT_TRUE(result.ok()) << result.status();
      for (const CacheDamage& damage : result->damages) {
        ADD_FAILURE() << damage.segment << " " << damage.index << " " << damage.reason;
      }
    } while (!ends);
  });
  for (uint64_t i = 0; i < 600; ++i) ASSERT_TRUE(h_.Store(TestChunk(1, i)));
  ends = true;
  verifier.join();
}

}  // namespace
}  // namespace incipit
