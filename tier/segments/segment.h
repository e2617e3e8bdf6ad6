// Segments: the files of the disk tier. A segment has a header (one page), records of equal size,
// and a table of the records at the end of the file. The table is written after the last record;
// the segment is then sealed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tier/segments/record.h"

namespace incipit {

// The position of each part of a segment of `file_bytes` bytes.
struct SegmentLayout {
  SegmentLayout(uint64_t file_bytes, size_t record_bytes);

  uint64_t file_bytes;
  size_t record_bytes;
  uint32_t num_records = 0;  // maximum number of records; 0: the file is too small
  size_t table_bytes = 0;    // a multiple of kPageBytes

  uint64_t OffsetOf(uint32_t index) const {
    return kPageBytes + static_cast<uint64_t>(index) * record_bytes;
  }
  uint64_t table_offset() const { return file_bytes - table_bytes; }
};

// The first page of a segment, without its checksum and padding.
struct SegmentHeader {
  uint64_t magic = 0;
  uint32_t version = kRecordVersion;
  uint32_t number = 0;
  Fingerprint fingerprint{};
  uint64_t file_bytes = 0;
  uint64_t record_bytes = 0;
};

// Describes one record in the table of a segment. `incipit cache inspect` shows these fields.
struct TableEntry {
  BlockHash key;
  BlockHash parent;
  int64_t first_token = 0;
  uint64_t tenant = 0;
  int64_t created_s = 0;
  int64_t expires_s = 0;
  int32_t priority = 0;
  uint32_t index = 0;  // index of the record in the segment
};
static_assert(sizeof(TableEntry) == 104);

TableEntry EntryOf(const RecordHeader& record, uint32_t index);

// Writes the header of a segment, with a checksum, to `page`.
void EncodeHeader(const SegmentHeader& header, std::span<std::byte> page);
// Returns the header, or std::nullopt if magic, version or checksum are wrong.
std::optional<SegmentHeader> DecodeHeader(std::span<const std::byte> page);
// Writes the table of a sealed segment. REQUIRES: `out` has table_bytes bytes.
void EncodeTable(const SegmentHeader& header, std::span<const TableEntry> entries,
                 std::span<std::byte> out);
// Replaces `entries` by the entries of the table. Returns false if the table is not complete or
// belongs to another segment than `header` describes.
bool DecodeTable(const SegmentHeader& header, std::span<const std::byte> table,
                 std::vector<TableEntry>& entries);

// Number of hexadecimal digits of a fingerprint in the names of its files.
inline constexpr size_t kFingerprintDigits = 16;
// Returns the first kFingerprintDigits hexadecimal digits of the fingerprint.
std::string FingerprintName(const Fingerprint& fingerprint);
// Returns true if FingerprintName can return `name`.
bool IsFingerprintName(std::string_view name);
// Returns the name of the file of a segment: FingerprintName, a hyphen, 8 hexadecimal digits of the
// number, and kSegmentSuffix.
std::string SegmentName(const Fingerprint& fingerprint, uint32_t number);
// Returns the number of the segment with the file name `name` and any fingerprint. Returns
// std::nullopt if `name` is not the name of a segment.
std::optional<uint32_t> SegmentNumber(std::string_view name);

}  // namespace incipit
