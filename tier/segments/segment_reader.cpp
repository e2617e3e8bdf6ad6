#include "tier/segments/segment_reader.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status.h"

namespace incipit {
namespace {

absl::Status Damaged(const SegmentFile& segment, std::string_view reason) {
  return MakeStatus(absl::StatusCode::kDataLoss, "{}: {}", segment.name, reason);
}

// Returns true if neither the header nor the first record of the segment is written.
bool IsNew(File& file, std::span<const std::byte> header_page) {
  if (!IsUnused(header_page)) return false;
  const PageBuffer page(kPageBytes);
  return file.Read(kPageBytes, page.bytes()).ok() && IsUnused(page.bytes());
}

bool HasPossibleSizes(const SegmentHeader& header) {
  return header.file_bytes <= SegmentReader::kSegmentBytesMax &&
         header.file_bytes % kPageBytes == 0 && header.record_bytes >= kPageBytes &&
         header.record_bytes % kPageBytes == 0 && header.record_bytes < header.file_bytes;
}

}  // namespace

SegmentReader::SegmentReader(std::shared_ptr<File> file, const SegmentHeader& header)
    : file_(std::move(file)),
      header_(header),
      layout_(header.file_bytes, header.record_bytes),
      page_(kPageBytes) {}

absl::StatusOr<SegmentReader> SegmentReader::Open(const CacheFolder& folder,
                                                  const SegmentFile& segment) {
  INCIPIT_ASSIGN_OR_RETURN(std::shared_ptr<File> file, folder.OpenFile(segment.name));
  // A tier first creates an empty file.
  if (segment.num_bytes == 0) return NotFound("{}: a new segment", segment.name);
  if (segment.num_bytes < kPageBytes) return Damaged(segment, "the file has no header");
  const PageBuffer page(kPageBytes);
  INCIPIT_RETURN_IF_ERROR(file->Read(0, page.bytes()));
  if (IsNew(*file, page.bytes())) return NotFound("{}: a new segment", segment.name);
  const std::optional<SegmentHeader> header = DecodeHeader(page.bytes());
  if (!header) return Damaged(segment, "the header is damaged");
  if (SegmentName(header->fingerprint, header->number) != segment.name) {
    return Damaged(segment, "the header belongs to another segment");
  }
  if (!HasPossibleSizes(*header)) return Damaged(segment, "the header has an impossible size");
  SegmentReader reader(std::move(file), *header);
  reader.is_truncated_ = segment.num_bytes < header->file_bytes;
  const uint64_t num_fitting = (segment.num_bytes - kPageBytes) / header->record_bytes;
  reader.num_records_ =
      static_cast<uint32_t>(std::min<uint64_t>(num_fitting, reader.layout_.num_records));
  if (!reader.is_truncated_) INCIPIT_RETURN_IF_ERROR(reader.ReadTable());
  return reader;
}

absl::Status SegmentReader::ReadTable() {
  const PageBuffer table(layout_.table_bytes);
  INCIPIT_RETURN_IF_ERROR(file_->Read(layout_.table_offset(), table.bytes()));
  const bool is_complete = DecodeTable(header_, table.bytes(), entries_) &&
                           std::ranges::all_of(entries_, [&](const TableEntry& entry) {
                             return entry.index < num_records_;
                           });
  if (is_complete) {
    table_ = Table::kSealed;
    return absl::OkStatus();
  }
  entries_.clear();
  table_ = IsUnused(table.bytes()) ? Table::kNone : Table::kDamaged;
  return absl::OkStatus();
}

absl::StatusOr<std::optional<RecordHeader>> SegmentReader::ReadHeader(uint32_t index) {
  INCIPIT_CHECK(index < num_records_);
  INCIPIT_RETURN_IF_ERROR(file_->Read(layout_.OffsetOf(index), page_.bytes()));
  const RecordHeader header = HeaderOf(page_.bytes());
  if (header.magic != kRecordMagic || header.version != kRecordVersion ||
      header.fingerprint != header_.fingerprint || !LayoutOf(header, header_.record_bytes)) {
    return std::nullopt;
  }
  return header;
}

absl::StatusOr<std::span<const std::byte>> SegmentReader::ReadRecord(uint32_t index) {
  INCIPIT_CHECK(index < num_records_);
  if (!record_) record_.emplace(header_.record_bytes);
  INCIPIT_RETURN_IF_ERROR(file_->Read(layout_.OffsetOf(index), record_->bytes()));
  return record_->bytes();
}

}  // namespace incipit
