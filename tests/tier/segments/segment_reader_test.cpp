// Tests reading segments without the options of the server that wrote them.
#include "tier/segments/segment_reader.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <vector>

#include "tests/tier/tier_harness.h"

namespace incipit {
namespace {

namespace fs = std::filesystem;
using Table = SegmentReader::Table;

constexpr uint64_t kRecordBytes = 3 * kPageBytes;

class SegmentReaderTest : public testing::Test {
 protected:
  SegmentReaderTest() {
    h_.Start();
    for (uint64_t i = 0; i < 20; ++i) EXPECT_TRUE(h_.Store(TestChunk(i, 0)));
    h_.tier.reset();  // a sealed segment with 16 records, and a segment with 4 records
  }

  std::vector<SegmentFile> List() const {
    const auto folder = CacheFolder::Open(h_.directory.path());
    EXPECT_TRUE(folder.ok()) << folder.status();
    auto segments = folder->ListSegments();
    EXPECT_TRUE(segments.ok()) << segments.status();
    return *std::move(segments);
  }
  absl::StatusOr<SegmentReader> Open(size_t i) const {
    return SegmentReader::Open(*CacheFolder::Open(h_.directory.path()), List().at(i));
  }
  void Overwrite(size_t i, uint64_t offset, std::string_view bytes) const {
    std::fstream file(h_.directory.Segments()[i], std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(offset));
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  RejectReason Verify(SegmentReader& reader, uint32_t index, int64_t now_s = 0) const {
    const auto record = reader.ReadRecord(index);
    EXPECT_TRUE(record.ok()) << record.status();
    return VerifyAnyRecord(reader.header().fingerprint, *record, now_s);
  }

  TierHarness h_;
};

TEST_F(SegmentReaderTest, ListsSegmentsOldestFirst) {
  std::ofstream(h_.directory.path() + "/notes.txt") << "no segment";
  std::ofstream(h_.directory.path() + "/no\x1b[7mfingerprnt-00000007.segment") << "no segment";
  fs::create_directory(h_.directory.path() + "/abababababababab-00000003.segment");
  fs::create_symlink("/dev/null", h_.directory.path() + "/abababababababab-00000004.segment");
  ASSERT_EQ(::mkfifo((h_.directory.path() + "/abababababababab-00000005.segment").c_str(), 0600),
            0);
  const std::vector<SegmentFile> segments = List();
  ASSERT_EQ(segments.size(), 2u);
  EXPECT_EQ(segments[0].number, 1u);
  EXPECT_EQ(segments[1].number, 2u);
  EXPECT_EQ(segments[0].num_bytes, TierHarness::kSegmentBytes);
}

TEST_F(SegmentReaderTest, ReadsSealedAndOpenSegments) {
  auto sealed = Open(0);
  ASSERT_TRUE(sealed.ok()) << sealed.status();
  EXPECT_EQ(sealed->table(), Table::kSealed);
  EXPECT_EQ(sealed->entries().size(), 16u);
  EXPECT_EQ(sealed->num_records(), 16u);
  EXPECT_EQ(Verify(*sealed, 15), RejectReason::kOk);
  auto open = Open(1);
  ASSERT_TRUE(open.ok()) << open.status();
  EXPECT_EQ(open->table(), Table::kNone);
  EXPECT_TRUE(open->entries().empty());
  const auto header = open->ReadHeader(3);
  ASSERT_TRUE(header.ok() && header->has_value());
  EXPECT_EQ((*header)->key, TestChunk(19, 0).identity.key);
  EXPECT_EQ((*header)->num_tokens, 8u);
  EXPECT_EQ(Verify(*open, 3), RejectReason::kOk);
  EXPECT_FALSE(open->ReadHeader(4)->has_value());
  EXPECT_EQ(Verify(*open, 4), RejectReason::kMagic);
}

TEST_F(SegmentReaderTest, NamesTheDamage) {
  auto reader = Open(0);
  Overwrite(0, kPageBytes + 2 * kRecordBytes + 5000, "damaged");
  EXPECT_EQ(Verify(*reader, 2), RejectReason::kChecksum);
  Overwrite(0, kPageBytes + 3 * kRecordBytes + offsetof(RecordHeader, payload_bytes) + 1, "x");
  EXPECT_EQ(Verify(*reader, 3), RejectReason::kSize);
  Overwrite(0, kPageBytes + 4 * kRecordBytes + offsetof(RecordHeader, fingerprint), "x");
  EXPECT_EQ(Verify(*reader, 4), RejectReason::kFingerprint);
  EXPECT_FALSE(reader->ReadHeader(4)->has_value());
  const SegmentLayout layout(TierHarness::kSegmentBytes, kRecordBytes);
  Overwrite(0, layout.table_offset() + 200, "damaged");
  EXPECT_EQ(Open(0)->table(), Table::kDamaged);
  Overwrite(0, 20, "damaged");
  EXPECT_EQ(Open(0).status().message(), "abababababababab-00000001.segment: the header is damaged");
}

// A server creates the file of a segment before it writes the header.
TEST_F(SegmentReaderTest, ASegmentWithoutAHeaderIsNotFound) {
  const std::string zeros(kPageBytes, '\0');
  Overwrite(1, 0, zeros);
  EXPECT_EQ(Open(1).status().code(), absl::StatusCode::kDataLoss);
  Overwrite(1, kPageBytes, zeros);
  EXPECT_TRUE(absl::IsNotFound(Open(1).status()));
}

TEST_F(SegmentReaderTest, RejectsAnotherSegmentUnderTheName) {
  const std::vector<fs::path> files = h_.directory.Segments();
  fs::copy_file(files[0], files[1], fs::copy_options::overwrite_existing);
  EXPECT_EQ(Open(1).status().message(),
            "abababababababab-00000002.segment: the header belongs to another segment");
}

TEST_F(SegmentReaderTest, ReadsATruncatedSegment) {
  const fs::path path = h_.directory.Segments()[0];
  auto before = Open(0);
  fs::resize_file(path, kPageBytes + 5 * kRecordBytes + 100);
  auto after = Open(0);
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_TRUE(after->is_truncated());
  EXPECT_EQ(after->num_records(), 5u);
  EXPECT_EQ(Verify(*after, 4), RejectReason::kOk);
  EXPECT_TRUE(absl::IsOutOfRange(before->ReadRecord(5).status()));
  fs::resize_file(path, 100);
  EXPECT_EQ(Open(0).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(SegmentReaderTest, AVanishedFileIsNotFound) {
  const auto folder = CacheFolder::Open(h_.directory.path());
  const std::vector<SegmentFile> segments = List();
  auto open = Open(0);
  fs::remove(h_.directory.Segments()[0]);
  EXPECT_TRUE(absl::IsNotFound(SegmentReader::Open(*folder, segments[0]).status()));
  EXPECT_EQ(Verify(*open, 0), RejectReason::kOk);  // an open segment stays readable
}

// A header with a valid checksum may have any sizes.
TEST_F(SegmentReaderTest, RejectsImpossibleSizes) {
  const fs::path path = h_.directory.Segments()[0];
  PageBuffer page(kPageBytes);
  const std::pair<uint64_t, uint64_t> sizes[] = {{TierHarness::kSegmentBytes, 0},
                                                 {TierHarness::kSegmentBytes, 1},
                                                 {TierHarness::kSegmentBytes, 100},
                                                 {TierHarness::kSegmentBytes, ~uint64_t{0}},
                                                 {~uint64_t{0}, kRecordBytes},
                                                 {uint64_t{1} << 40, kPageBytes},
                                                 {TierHarness::kSegmentBytes - 1, kPageBytes}};
  for (const auto& [file_bytes, record_bytes] : sizes) {
    EncodeHeader({.number = 1,
                  .fingerprint = h_.options.fingerprint,
                  .file_bytes = file_bytes,
                  .record_bytes = record_bytes},
                 page.bytes());
    Overwrite(0, 0, {reinterpret_cast<const char*>(page.bytes().data()), kPageBytes});
    EXPECT_EQ(Open(0).status().message(),
              "abababababababab-00000001.segment: the header has an impossible size");
  }
}

TEST_F(SegmentReaderTest, LayoutOfAcceptsOnlyMatchingSizes) {
  RecordHeader header;
  header.num_tokens = 8;
  header.payload_bytes = 8192;
  ASSERT_TRUE(LayoutOf(header, kRecordBytes).has_value());
  EXPECT_EQ(LayoutOf(header, kRecordBytes)->payload_begin, RecordLayout(kTestShape).payload_begin);
  EXPECT_FALSE(LayoutOf(header, 4 * kPageBytes).has_value());
  header.payload_bytes = ~uint64_t{0};
  EXPECT_FALSE(LayoutOf(header, kRecordBytes).has_value());
  header.payload_bytes = 8192;
  for (const uint32_t num_tokens : {0u, 100'000u, ~0u}) {
    header.num_tokens = num_tokens;
    EXPECT_FALSE(LayoutOf(header, kRecordBytes).has_value());
  }
}

// Any bytes in any part of the files are read without a crash.
TEST_F(SegmentReaderTest, SurvivesRandomBytes) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 300; ++round) {
    std::string bytes(1 + random() % 300, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    const uint64_t place = random() % 3;
    const uint64_t offset =
        place == 0 ? random() % 200 : random() % (TierHarness::kSegmentBytes - bytes.size());
    Overwrite(random() % 2, offset, bytes);
    for (size_t i = 0; i < 2; ++i) {
      auto reader = Open(i);
      if (!reader.ok()) continue;
      for (uint32_t k = 0; k < reader->num_records(); ++k) {
        ASSERT_TRUE(reader->ReadHeader(k).ok());
        Verify(*reader, k, 5);
      }
    }
    // Repair the headers of the segments, so that most rounds read records.
    if (round % 3 != 0) continue;
    PageBuffer page(kPageBytes);
    for (uint32_t number : {1u, 2u}) {
      EncodeHeader({.number = number,
                    .fingerprint = h_.options.fingerprint,
                    .file_bytes = TierHarness::kSegmentBytes,
                    .record_bytes = kRecordBytes},
                   page.bytes());
      Overwrite(number - 1, 0, {reinterpret_cast<const char*>(page.bytes().data()), kPageBytes});
    }
  }
}

}  // namespace
}  // namespace incipit
