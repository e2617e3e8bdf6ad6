// SegmentReader: reads one segment without the options of the server that wrote the segment.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tier/files/page_buffer.h"
#include "tier/segments/cache_folder.h"
#include "tier/segments/segment.h"

namespace incipit {

// The file may have any contents, and another process may write to the file or remove the file at
// the same time. An open SegmentReader can still read a removed file.
class SegmentReader {
 public:
  // Maximum size of a segment. A larger file is damaged: the segments of a server have 64 MiB.
  static constexpr uint64_t kSegmentBytesMax = uint64_t{1} << 30;

  // kSealed: the segment has a complete table. kNone: the table is not written yet. kDamaged: the
  // table is neither complete nor missing.
  enum class Table : uint8_t { kSealed, kNone, kDamaged };

  // Opens a segment, and reads its header and table. Returns DATA_LOSS if the header is damaged or
  // belongs to another segment, NOT_FOUND if the file has vanished or if its header is not written
  // yet, and other errors if the disk fails.
  static absl::StatusOr<SegmentReader> Open(const CacheFolder& folder, const SegmentFile& segment);

  const SegmentHeader& header() const { return header_; }
  Table table() const { return table_; }
  // Returns the table of a sealed segment, and otherwise an empty list. Each index is below
  // num_records().
  std::span<const TableEntry> entries() const { return entries_; }
  // Returns true if the file is shorter than its header states.
  bool is_truncated() const { return is_truncated_; }
  // Returns the maximum number of records that the file can have.
  uint32_t num_records() const { return num_records_; }

  // Reads the header of record number `index`, but does not verify the record. Returns std::nullopt
  // if there is no header of a record of this segment. REQUIRES: `index` < num_records().
  absl::StatusOr<std::optional<RecordHeader>> ReadHeader(uint32_t index);
  // Reads a whole record. The bytes are valid until the next call. REQUIRES: as for ReadHeader.
  absl::StatusOr<std::span<const std::byte>> ReadRecord(uint32_t index);

 private:
  SegmentReader(std::shared_ptr<File> file, const SegmentHeader& header);
  absl::Status ReadTable();

  std::shared_ptr<File> file_;
  SegmentHeader header_;
  SegmentLayout layout_;
  Table table_ = Table::kNone;
  std::vector<TableEntry> entries_;
  bool is_truncated_ = false;
  uint32_t num_records_ = 0;
  PageBuffer page_;
  std::optional<PageBuffer> record_;  // allocated at the first call of ReadRecord
};

}  // namespace incipit
