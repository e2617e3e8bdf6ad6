// Tests the layout of segments, their tables and their names.
#include "tier/segments/segment.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/tier/tier_chunks.h"

namespace incipit {
namespace {

TEST(SegmentLayoutTest, RecordsAndTableFitIntoTheFile) {
  for (const size_t record_bytes :
       {size_t{4096}, size_t{12288}, size_t{1} << 20, size_t{8} << 20}) {
    const SegmentLayout layout(64 << 20, record_bytes);
    ASSERT_GT(layout.num_records, 0u);
    EXPECT_LE(layout.OffsetOf(layout.num_records), layout.table_offset());
    EXPECT_EQ(layout.table_offset() % kPageBytes, 0u);
    // One more record would not fit.
    const size_t more = (layout.num_records + 1) * sizeof(TableEntry);
    EXPECT_GT(layout.OffsetOf(layout.num_records + 1) + more, layout.file_bytes);
  }
  EXPECT_EQ(SegmentLayout(64 << 20, 64 << 20).num_records, 0u);
  EXPECT_EQ(SegmentLayout(100, 4096).num_records, 0u);
}

TEST(SegmentNameTest, HasFingerprintAndNumber) {
  Fingerprint fingerprint{};
  for (size_t i = 0; i < 32; ++i) fingerprint[i] = static_cast<uint8_t>(i + 0xa0);
  const std::string name = SegmentName(fingerprint, 0x1f);
  EXPECT_EQ(name, "a0a1a2a3a4a5a6a7-0000001f.segment");
  EXPECT_EQ(SegmentNumber(name), 0x1fu);
  EXPECT_EQ(SegmentNumber("a0a1a2a3a4a5a6a7-0000001g.segment"), std::nullopt);
  EXPECT_EQ(SegmentNumber("a0a1a2a3a4a5a6a7-00000000.segment"), std::nullopt);
  EXPECT_EQ(SegmentNumber("x.segment"), std::nullopt);
}

class SegmentTableTest : public testing::Test {
 protected:
  SegmentTableTest() {
    header_.number = 9;
    header_.fingerprint.fill(4);
    header_.file_bytes = 1 << 20;
    header_.record_bytes = 12288;
    for (uint32_t i = 0; i < 30; ++i) {
      RecordHeader record;
      record.key = TestKey(1, i + 1);
      record.parent = TestKey(1, i);
      record.expires_s = i;
      entries_.push_back(EntryOf(record, 2 * i));
    }
    EncodeTable(header_, entries_, table_);
  }
  bool Decodes(const SegmentHeader& header) {
    std::vector<TableEntry> entries;
    return DecodeTable(header, table_, entries);
  }

  SegmentHeader header_;
  std::vector<TableEntry> entries_;
  std::vector<std::byte> table_ = std::vector<std::byte>(kPageBytes);
};

// The segment was sealed before a record was written.
TEST_F(SegmentTableTest, ATableWithoutEntriesIsReadBack) {
  EncodeTable(header_, {}, table_);
  std::vector<TableEntry> entries = entries_;
  EXPECT_TRUE(DecodeTable(header_, table_, entries));
  EXPECT_TRUE(entries.empty());
}

TEST_F(SegmentTableTest, ReturnsTheEntries) {
  std::vector<TableEntry> entries(3);
  ASSERT_TRUE(DecodeTable(header_, table_, entries));
  ASSERT_EQ(entries.size(), 30u);
  EXPECT_EQ(entries[7].key, TestKey(1, 8));
  EXPECT_EQ(entries[7].parent, TestKey(1, 7));
  EXPECT_EQ(entries[7].expires_s, 7);
  EXPECT_EQ(entries[7].index, 14u);
}

TEST_F(SegmentTableTest, RejectsEveryCorruptByte) {
  for (size_t i = 0; i < table_.size(); ++i) {
    table_[i] ^= std::byte{4};
    ASSERT_FALSE(Decodes(header_)) << "byte " << i;
    table_[i] ^= std::byte{4};
  }
}

TEST_F(SegmentTableTest, RejectsTheTableOfAnotherSegment) {
  const auto rejects = [&](auto change) {
    SegmentHeader header = header_;
    change(header);
    EXPECT_FALSE(Decodes(header));
  };
  rejects([](SegmentHeader& h) { ++h.number; });
  rejects([](SegmentHeader& h) { h.fingerprint[31] = 5; });
  rejects([](SegmentHeader& h) { h.file_bytes *= 2; });
  rejects([](SegmentHeader& h) { h.record_bytes += kPageBytes; });
}

TEST_F(SegmentTableTest, AHeaderIsRejectedIfAnyByteIsCorrupt) {
  std::vector<std::byte> page(kPageBytes);
  EncodeHeader(header_, page);
  const std::optional<SegmentHeader> header = DecodeHeader(page);
  ASSERT_TRUE(header.has_value());
  EXPECT_EQ(header->number, 9u);
  EXPECT_EQ(header->record_bytes, 12288u);
  for (size_t i = 0; i < page.size(); ++i) {
    page[i] ^= std::byte{1};
    ASSERT_FALSE(DecodeHeader(page).has_value()) << "byte " << i;
    page[i] ^= std::byte{1};
  }
}

}  // namespace
}  // namespace incipit
