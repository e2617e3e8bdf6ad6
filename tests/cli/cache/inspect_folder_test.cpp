// Tests `incipit cache inspect` on folders with valid, damaged and changing files.
#include "cli/cache/inspect_folder.h"

#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <random>
#include <thread>

#include "tests/cli/cache/cache_test_folder.h"

namespace incipit {
namespace {

class InspectFolderTest : public CacheFolderTest {
 protected:
  std::vector<FingerprintContents> Inspect(int64_t now_s = kNow) {
    auto contents = InspectFolder(Folder(), now_s, progress_);
    EXPECT_TRUE(contents.ok()) << contents.status();
    return *std::move(contents);
  }
};

TEST_F(InspectFolderTest, ListsPrefixesOfSealedAndOpenSegments) {
  Fill(1, 18);
  Fill(2, 3);
  const auto all = Inspect();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].name, "abababababababab");
  EXPECT_EQ(all[0].num_segments, 2u);
  EXPECT_EQ(all[0].num_bytes, 2 * TierHarness::kSegmentBytes);
  EXPECT_EQ(all[0].num_records, 21u);
  EXPECT_EQ(all[0].num_damaged, 0u);
  EXPECT_EQ(all[0].record_bytes, kRecordBytes);
  EXPECT_EQ(all[0].chunk_tokens, 8u);
  ASSERT_EQ(all[0].prefixes.size(), 2u);
  EXPECT_EQ(all[0].prefixes[0].key, TestKey(1, 1).prefix());
  EXPECT_EQ(all[0].prefixes[0].num_chunks, 18u);
  EXPECT_EQ(all[0].prefixes[0].num_longest, 18u);
  EXPECT_EQ(all[0].prefixes[0].tenant, 11u);
  EXPECT_EQ(all[0].prefixes[0].oldest_s, 1'000'000);
  EXPECT_EQ(all[0].prefixes[1].num_chunks, 3u);
}

TEST_F(InspectFolderTest, KeepsFingerprintsApart) {
  Fill(1, 2);
  h_.options.fingerprint.fill(0xcd);
  Fill(1, 1);
  const auto all = Inspect();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].name, "abababababababab");
  EXPECT_EQ(all[0].prefixes.at(0).num_chunks, 2u);
  EXPECT_EQ(all[1].name, "cdcdcdcdcdcdcdcd");
  EXPECT_EQ(all[1].prefixes.at(0).num_chunks, 1u);
}

TEST_F(InspectFolderTest, ReportsTheHitsOfTheLastCleanEnd) {
  Fill(1, 3);
  h_.Start();
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(h_.Load(TestChunk(1, 1)));
  EXPECT_EQ(Inspect().at(0).prefixes.at(0).hits_max, 0u);
  h_.tier.reset();
  EXPECT_EQ(Inspect().at(0).prefixes.at(0).hits_max, 4u);
}

TEST_F(InspectFolderTest, OmitsExpiredChunks) {
  h_.Start();
  const TestChunk chunk(1, 0);
  const auto ticket =
      h_.tier->BeginStore(chunk.identity, {.time_to_live = std::chrono::seconds(50)});
  ASSERT_TRUE(ticket.has_value());
  h_.tier->FinishStore(*ticket);
  ASSERT_TRUE(h_.WaitForStores());
  h_.tier.reset();
  EXPECT_EQ(Inspect(1'000'049).at(0).prefixes.at(0).next_expiry_s, 1'000'050);
  EXPECT_TRUE(Inspect(1'000'050).at(0).prefixes.empty());
  EXPECT_EQ(Inspect(1'000'050).at(0).num_expired, 1u);
}

// The age of such a chunk would not fit into 64 bits.
TEST_F(InspectFolderTest, ATimeBefore1970CountsAs1970) {
  h_.unix_seconds = std::numeric_limits<int64_t>::min();
  Fill(1, 1);
  EXPECT_EQ(Inspect().at(0).prefixes.at(0).oldest_s, 0);
  EXPECT_EQ(Inspect().at(0).prefixes.at(0).newest_s, 0);
}

TEST_F(InspectFolderTest, CountsDamagedSegments) {
  Fill(1, 18);
  Damage(1, 10);
  const auto all = Inspect();
  EXPECT_EQ(all.at(0).num_damaged, 1u);
  EXPECT_EQ(all.at(0).num_segments, 2u);
  EXPECT_EQ(all.at(0).prefixes.at(0).num_chunks, 16u);
}

TEST_F(InspectFolderTest, AnEmptyFolderHasNoContents) { EXPECT_TRUE(Inspect().empty()); }

TEST_F(InspectFolderTest, ChangesNoFile) {
  Fill(1, 18);
  std::vector<std::string> before;
  for (const auto& segment : h_.directory.Segments()) before.push_back(Contents(segment));
  Damage(0, 10);
  Damage(0, 10);  // restores the byte
  Inspect();
  std::vector<std::string> after;
  for (const auto& segment : h_.directory.Segments()) after.push_back(Contents(segment));
  EXPECT_EQ(before, after);
}

TEST_F(InspectFolderTest, SurvivesRandomBytes) {
  std::mt19937_64 random(1);
  for (uint64_t round = 0; round < 10; ++round) {
    Fill(100 + round, 40);
    for (int i = 0; i < 20; ++i) {
      OverwriteRandomly(random);
      Inspect();
    }
  }
}

TEST_F(InspectFolderTest, WorksWhileATierWritesAndReclaims) {
  h_.Start();
  std::atomic<bool> ends = false;
  int num_inspections = 0;
  std::thread inspector([&] {
    Progress progress("test");
    for (; !ends || num_inspections == 0; ++num_inspections) {
      const auto contents = InspectFolder(Folder(), kNow, progress);
      EXPECT_TRUE(contents.ok()) << contents.status();
      if (!contents.ok() || contents->empty()) continue;
      EXPECT_LE(contents->at(0).num_segments, 9u);
    }
  });
  for (uint64_t i = 0; i < 600; ++i) ASSERT_TRUE(h_.Store(TestChunk(1, i)));
  ends = true;
  inspector.join();
  EXPECT_GT(num_inspections, 0);
}

}  // namespace
}  // namespace incipit
