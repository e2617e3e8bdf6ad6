// Tests `incipit cache export` and `incipit cache import`.
#include "cli/cache/archive.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <random>

#include "cli/cache/export_folder.h"
#include "cli/cache/import_archive.h"
#include "tests/cli/cache/cache_test_folder.h"
#include "tier/files/posix_file_system.h"

namespace incipit {
namespace {

namespace fs = std::filesystem;

class ArchiveTest : public CacheFolderTest {
 protected:
  absl::StatusOr<ExportResult> Export(const ExportOptions& options = {.fingerprint = {},
                                                                      .now_s = kNow}) {
    auto file = OutputFile::Create(archive_);
    if (!file.ok()) return file.status();
    return ExportFolder(Folder(), options, *file, is_cancelled_, progress_);
  }
  // Imports the archive into the folder of `h`.
  ImportResult Import(TierHarness& h, uint64_t num_segments = 8) {
    const auto files = MakePosixFileSystem(h.directory.path(), IoMethod::kPread);
    EXPECT_TRUE(files->Prepare().ok());
    EXPECT_TRUE(*files->Lock());
    auto file = InputFile::Open(archive_);
    EXPECT_TRUE(file.ok()) << file.status();
    return ImportArchive(*file, *files,
                         {.size_bytes = num_segments * TierHarness::kSegmentBytes,
                          .segment_bytes = TierHarness::kSegmentBytes,
                          .now_s = kNow},
                         progress_);
  }
  static uint64_t CountLoads(TierHarness& h, uint64_t sequence, uint64_t count) {
    uint64_t num_loaded = 0;
    for (uint64_t i = 0; i < count; ++i) num_loaded += h.Load(TestChunk(sequence, i));
    return num_loaded;
  }
  void WriteArchive(const std::string& bytes) const {
    std::ofstream(archive_, std::ios::binary) << bytes;
  }
  size_t NumFiles() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(other_.path()), {}));
  }

  TestDirectory other_;
  const std::string archive_ = other_.path() + "/archive";
  std::atomic<bool> is_cancelled_ = false;
};

TEST_F(ArchiveTest, AnImportedFolderHasTheRecords) {
  Fill(1, 18);
  const auto exported = Export();
  ASSERT_TRUE(exported.ok()) << exported.status();
  EXPECT_EQ(exported->num_exported, 18u);
  EXPECT_EQ(exported->num_damaged, 0u);
  struct stat info;
  ASSERT_EQ(::stat(archive_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  EXPECT_EQ(NumFiles(), 1u);

  TierHarness target;
  const ImportResult imported = Import(target);
  EXPECT_TRUE(imported.status.ok()) << imported.status;
  EXPECT_EQ(imported.num_imported, 18u);
  EXPECT_EQ(imported.num_bytes, 18 * kRecordBytes);
  target.Start();
  EXPECT_EQ(CountLoads(target, 1, 18), 18u);
  target.tier.reset();

  // A second import adds no record and no segment.
  const size_t num_segments = target.directory.Segments().size();
  const ImportResult again = Import(target);
  EXPECT_TRUE(again.status.ok()) << again.status;
  EXPECT_EQ(again.num_imported, 0u);
  EXPECT_EQ(again.num_present, 18u);
  EXPECT_EQ(target.directory.Segments().size(), num_segments);
}

TEST_F(ArchiveTest, SealsTheLastSegment) {
  Fill(1, 3);
  ASSERT_TRUE(Export().ok());
  TierHarness target;
  ASSERT_TRUE(Import(target).status.ok());
  // The start reads only the table, so damage of a record is found by the load.
  std::fstream file(target.directory.Segments().at(0),
                    std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(kPageBytes + 5000).put('x');
  file.close();
  target.Start();
  EXPECT_EQ(target.tier->stats().chunks, 3u);
  EXPECT_EQ(CountLoads(target, 1, 3), 2u);
}

TEST_F(ArchiveTest, KeepsFingerprintsApart) {
  Fill(1, 2);
  h_.options.fingerprint.fill(0xcd);
  Fill(2, 3);
  const auto one = Export({.fingerprint = "abababababababab", .now_s = kNow});
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(one->num_exported, 2u);
  EXPECT_TRUE(
      absl::IsNotFound(Export({.fingerprint = "0000000000000000", .now_s = kNow}).status()));
  const auto all = Export();
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all->num_exported, 5u);
  TierHarness target;
  EXPECT_EQ(Import(target).num_imported, 5u);
  target.Start();
  EXPECT_EQ(CountLoads(target, 1, 2), 2u);
  EXPECT_EQ(CountLoads(target, 2, 3), 0u);
  target.options.fingerprint.fill(0xcd);
  target.Start();
  EXPECT_EQ(CountLoads(target, 2, 3), 3u);
}

TEST_F(ArchiveTest, DamagedAndExpiredRecordsAreNotExported) {
  Fill(1, 5);
  DamageRecord(0, 2);
  const auto exported = Export();
  ASSERT_TRUE(exported.ok());
  EXPECT_EQ(exported->num_exported, 4u);
  EXPECT_EQ(exported->num_damaged, 1u);
}

TEST_F(ArchiveTest, AFullFolderLosesItsOldestSegments) {
  Fill(1, 40);  // 3 segments
  ASSERT_TRUE(Export().ok());
  TierHarness target;
  target.Start();
  for (uint64_t i = 0; i < 48; ++i) ASSERT_TRUE(target.Store(TestChunk(2, i)));  // 3 segments
  target.tier.reset();
  const ImportResult imported = Import(target, 4);
  EXPECT_TRUE(imported.status.ok()) << imported.status;
  EXPECT_EQ(imported.num_imported, 40u);
  EXPECT_EQ(imported.num_reclaimed, 32u);
  EXPECT_EQ(target.directory.Segments().size(), 4u);
  target.Start();
  EXPECT_EQ(CountLoads(target, 1, 40), 40u);
  EXPECT_EQ(CountLoads(target, 2, 48), 16u);
}

TEST_F(ArchiveTest, AnArchiveLargerThanTheFolderKeepsTheNewestRecords) {
  Fill(1, 64);
  ASSERT_TRUE(Export().ok());
  TierHarness target;
  const ImportResult imported = Import(target, 2);
  EXPECT_TRUE(imported.status.ok()) << imported.status;
  target.Start();
  EXPECT_EQ(target.directory.Segments().size(), 2u);
  EXPECT_FALSE(target.Load(TestChunk(1, 0)));
  EXPECT_TRUE(target.Load(TestChunk(1, 63)));
}

TEST_F(ArchiveTest, ADamagedRecordOfAnArchiveIsNotImported) {
  Fill(1, 5);
  ASSERT_TRUE(Export().ok());
  std::string bytes = Contents(archive_);
  // Header, section, and for each record an item and the record.
  const size_t third = 16 + 64 + 2 * (64 + kRecordBytes) + 64;
  bytes[third + 5000] ^= 1;
  WriteArchive(bytes);
  TierHarness target;
  const ImportResult imported = Import(target);
  EXPECT_TRUE(imported.status.ok()) << imported.status;
  EXPECT_EQ(imported.num_imported, 4u);
  EXPECT_EQ(imported.num_damaged, 1u);
  target.Start();
  EXPECT_EQ(CountLoads(target, 1, 5), 4u);
}

TEST_F(ArchiveTest, EveryTruncationIsAnError) {
  Fill(1, 2);
  ASSERT_TRUE(Export().ok());
  const std::string bytes = Contents(archive_);
  for (size_t size = 0; size < bytes.size(); size += size < 200 ? 1 : 997) {
    WriteArchive(bytes.substr(0, size));
    TierHarness target;
    const ImportResult imported = Import(target);
    EXPECT_FALSE(imported.status.ok()) << size;
    EXPECT_LE(imported.num_imported, 2u);
  }
  WriteArchive(bytes.substr(0, bytes.size() - 1));
  TierHarness target;
  EXPECT_TRUE(absl::IsOutOfRange(Import(target).status));
}

TEST_F(ArchiveTest, AMissingRecordIsAnError) {
  Fill(1, 3);
  ASSERT_TRUE(Export().ok());
  std::string bytes = Contents(archive_);
  bytes.erase(16 + 64, 64 + kRecordBytes);
  WriteArchive(bytes);
  TierHarness target;
  const ImportResult imported = Import(target);
  EXPECT_EQ(imported.status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(imported.num_imported, 2u);
}

TEST_F(ArchiveTest, OtherFilesAndVersionsAreRefused) {
  TierHarness target;
  WriteArchive("this is no archive, but a text");
  EXPECT_EQ(Import(target).status.message(), "the file was not written by `incipit cache export`");
  WriteArchive("");
  EXPECT_EQ(Import(target).status.message(), "the file was not written by `incipit cache export`");
  Fill(1, 1);
  ASSERT_TRUE(Export().ok());
  std::string bytes = Contents(archive_);
  bytes[8] = 9;
  WriteArchive(bytes);
  EXPECT_EQ(Import(target).status.message(),
            "the file has the format version 9; this program reads version 1");
}

// No byte of an archive may import a wrong record or end the program.
TEST_F(ArchiveTest, SurvivesRandomBytes) {
  Fill(1, 4);
  ASSERT_TRUE(Export().ok());
  const std::string good = Contents(archive_);
  std::mt19937_64 random(1);
  for (int round = 0; round < 150; ++round) {
    std::string bytes = good;
    for (uint64_t i = 0; i < 1 + random() % 4; ++i) {
      const size_t end = random() % 2 == 0 ? 200 : bytes.size();
      bytes[random() % end] = static_cast<char>(random());
    }
    WriteArchive(bytes);
    TierHarness target;
    Import(target);
    target.Start();
    for (uint64_t i = 0; i < 4; ++i) target.Load(TestChunk(1, i));
    target.AddStats();
    for (size_t i = 1; i < kNumRejectReasons; ++i) EXPECT_EQ(target.stats.rejected[i], 0u);
  }
}

TEST_F(ArchiveTest, AFailedExportLeavesNoFile) {
  Fill(1, 3);
  is_cancelled_ = true;
  EXPECT_TRUE(absl::IsCancelled(Export().status()));
  EXPECT_EQ(NumFiles(), 0u);
  is_cancelled_ = false;
  std::ofstream(archive_) << "previous";
  is_cancelled_ = true;
  EXPECT_FALSE(Export().ok());
  EXPECT_EQ(Contents(archive_), "previous");
  EXPECT_EQ(NumFiles(), 1u);
}

TEST_F(ArchiveTest, AnOutputThatIsNoRegularFileIsRefused) {
  EXPECT_FALSE(OutputFile::Create(other_.path()).ok());
  EXPECT_FALSE(OutputFile::Create("/dev/null").ok());
}

}  // namespace
}  // namespace incipit
