#include "tier/segments/segment_store.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status.h"

namespace incipit {
namespace {

bool IsExpired(int64_t expires_s, int64_t now_s) { return expires_s != 0 && expires_s <= now_s; }

}  // namespace

SegmentStore::SegmentStore(FileSystem& file_system, const SegmentStoreOptions& options)
    : file_system_(file_system),
      options_(options),
      layout_(options.segment_bytes, options.record.record_bytes),
      files_(file_system, options.fingerprint),
      table_(layout_.table_bytes),
      page_(kPageBytes),
      record_(options.record.record_bytes) {
  INCIPIT_CHECK(layout_.num_records > 0);
}

SegmentHeader SegmentStore::HeaderFor(uint32_t number) const {
  return {.number = number,
          .fingerprint = options_.fingerprint,
          .file_bytes = options_.segment_bytes,
          .record_bytes = layout_.record_bytes};
}

absl::Status SegmentStore::ListSegments() {
  INCIPIT_ASSIGN_OR_RETURN(const std::vector<FileInfo> files, file_system_.List());
  for (const FileInfo& file : files) {
    const std::optional<uint32_t> number = SegmentNumber(file.name);
    if (!number) continue;
    segments_.push_back({.number = *number,
                         .name = file.name,
                         .num_bytes = file.num_bytes,
                         .is_own = file.name == SegmentName(options_.fingerprint, *number)});
    num_bytes_ += file.num_bytes;
  }
  std::ranges::sort(segments_, {}, &Segment::number);
  if (!segments_.empty()) next_number_ = std::max(next_number_, segments_.back().number + 1);
  return absl::OkStatus();
}

absl::Status SegmentStore::Open(int64_t now_s, ChunkIndex& index) {
  Close();
  older_copies_.clear();
  unusable_.clear();
  INCIPIT_RETURN_IF_ERROR(ListSegments());
  while (num_bytes_ > options_.size_bytes) INCIPIT_RETURN_IF_ERROR(RemoveAt(0));
  for (const Segment& segment : segments_) {
    if (segment.is_own) INCIPIT_RETURN_IF_ERROR(Recover(segment, now_s, index));
  }
  for (const ChunkLocation& at : older_copies_) INCIPIT_RETURN_IF_ERROR(Erase(at));
  for (const uint32_t number : unusable_) INCIPIT_RETURN_IF_ERROR(RemoveSegment(number));
  return absl::OkStatus();
}

void SegmentStore::Close() {
  files_.ForgetAll();
  segments_.clear();
  active_.reset();
  num_bytes_ = 0;
}

absl::Status SegmentStore::RemoveAt(size_t position) {
  const Segment segment = segments_[position];
  if (active_ && segment.is_own && segment.number == active_->number) active_.reset();
  INCIPIT_RETURN_IF_ERROR(file_system_.Remove(segment.name));
  if (segment.is_own) files_.Forget(segment.number);
  segments_.erase(segments_.begin() + static_cast<ptrdiff_t>(position));
  num_bytes_ -= segment.num_bytes;
  return absl::OkStatus();
}

// Adds the records of `segment` to `index`. Reads the table of the segment, or all records if the
// table is not complete.
absl::Status SegmentStore::Recover(const Segment& segment, int64_t now_s, ChunkIndex& index) {
  INCIPIT_ASSIGN_OR_RETURN(const std::shared_ptr<File> file, file_system_.Open(segment.name));
  entries_.clear();
  bool is_sealed = false, may_continue = false;
  if (segment.num_bytes == options_.segment_bytes) {
    INCIPIT_RETURN_IF_ERROR(file->Read(layout_.table_offset(), table_.bytes()));
    is_sealed = DecodeTable(HeaderFor(segment.number), table_.bytes(), entries_);
    // A later read may return the old, correct bytes of a damaged table. The old table may list
    // erased records. So a segment that has a damaged table must be sealed again, and must not get
    // further records.
    may_continue = segment.number == segments_.back().number && IsUnused(table_.bytes());
  }
  if (!is_sealed) {
    INCIPIT_RETURN_IF_ERROR(Scan(segment, *file, now_s, may_continue));
    if (active_ && active_->number == segment.number) {
      active_->file = file;
      files_.Add(segment.number, file);
    }
  }
  for (const TableEntry& entry : entries_) {
    if (IsExpired(entry.expires_s, now_s)) continue;
    if (const IndexedChunk* const older = index.Find(entry.key)) older_copies_.push_back(older->at);
    index.Insert({.key = entry.key,
                  .parent = entry.parent.prefix(),
                  .is_first = entry.first_token == 0,
                  .priority = ClampPriority(entry.priority),
                  .expires_s = ClampExpiry(entry.expires_s),
                  .at = {segment.number, entry.index}},
                 entry.tenant);
  }
  return absl::OkStatus();
}

// Sets `entries_` to the valid records of a segment without a table. If `may_continue` is true and
// the segment has room, the segment becomes the active segment. Otherwise, seals the segment.
absl::Status SegmentStore::Scan(const Segment& segment, File& file, int64_t now_s,
                                bool may_continue) {
  entries_.clear();
  if (segment.num_bytes < kPageBytes) return absl::OkStatus();
  INCIPIT_RETURN_IF_ERROR(file.Read(0, page_.bytes()));
  const std::optional<SegmentHeader> header = DecodeHeader(page_.bytes());
  if (!header) {
    // The disk may return the right bytes later. Then the segment would contain chunks that were
    // removed meanwhile. So remove the segment.
    unusable_.push_back(segment.number);
    return absl::OkStatus();
  }
  if (header->number != segment.number || header->fingerprint != options_.fingerprint ||
      header->record_bytes != layout_.record_bytes) {
    return absl::OkStatus();  // The segment is not used, and is removed when it is the oldest.
  }
  const uint64_t num_fitting = (segment.num_bytes - kPageBytes) / layout_.record_bytes;
  const SegmentLayout found(header->file_bytes, layout_.record_bytes);
  const auto num_records =
      static_cast<uint32_t>(std::min<uint64_t>(num_fitting, found.num_records));
  for (uint32_t i = 0; i < num_records; ++i) {
    INCIPIT_RETURN_IF_ERROR(file.Read(layout_.OffsetOf(i), record_.bytes()));
    const RejectReason reason =
        VerifyAnyRecord(options_.record, options_.fingerprint, record_.bytes(), now_s);
    if (reason == RejectReason::kOk) {
      entries_.push_back(EntryOf(HeaderOf(record_.bytes()), i));
    } else if (!IsUnused(record_.bytes())) {
      // The disk may return the right bytes later. If the chunk were removed until then, the
      // removal would not erase this record. So erase the record now, before the segment is sealed.
      // If the erasure fails, the next Open reads the records again.
      INCIPIT_RETURN_IF_ERROR(Erase({segment.number, i}));
    }
  }
  const uint32_t next_index = entries_.empty() ? 0 : entries_.back().index + 1;
  if (segment.num_bytes != options_.segment_bytes || header->file_bytes != segment.num_bytes) {
    return absl::OkStatus();
  }
  if (may_continue && next_index < layout_.num_records) {
    active_ = {.number = segment.number, .file = {}, .entries = entries_, .next_index = next_index};
    return absl::OkStatus();
  }
  return Seal(file, segment.number, entries_);
}

bool SegmentStore::CanAppend() const { return active_ || FitsOneMore(); }

absl::Status SegmentStore::StartSegment() {
  const uint32_t number = next_number_++;
  const std::string name = SegmentName(options_.fingerprint, number);
  INCIPIT_ASSIGN_OR_RETURN(std::shared_ptr<File> file,
                           file_system_.Create(name, options_.segment_bytes));
  segments_.push_back(
      {.number = number, .name = name, .num_bytes = options_.segment_bytes, .is_own = true});
  num_bytes_ += options_.segment_bytes;
  EncodeHeader(HeaderFor(number), page_.bytes());
  INCIPIT_RETURN_IF_ERROR(file->Write(0, page_.bytes()));
  files_.Add(number, file);
  active_ = {.number = number, .file = std::move(file), .entries = {}, .next_index = 0};
  active_->entries.reserve(layout_.num_records);
  return absl::OkStatus();
}

absl::Status SegmentStore::Seal(File& file, uint32_t number, std::span<const TableEntry> entries) {
  EncodeTable(HeaderFor(number), entries, table_.bytes());
  return file.Write(layout_.table_offset(), table_.bytes());
}

absl::StatusOr<ChunkLocation> SegmentStore::Append(std::span<const std::byte> record) {
  if (!active_) INCIPIT_RETURN_IF_ERROR(StartSegment());
  const ChunkLocation at = {active_->number, active_->next_index};
  INCIPIT_RETURN_IF_ERROR(active_->file->Write(layout_.OffsetOf(at.index), record));
  active_->entries.push_back(EntryOf(HeaderOf(record), at.index));
  ++active_->next_index;
  return at;
}

absl::Status SegmentStore::SealIfFull() {
  if (!active_ || active_->next_index < layout_.num_records) return absl::OkStatus();
  return SealActive();
}

absl::Status SegmentStore::SealActive() {
  if (!active_) return absl::OkStatus();
  const absl::Status status = Seal(*active_->file, active_->number, active_->entries);
  active_.reset();
  return status;
}

absl::Status SegmentStore::Read(ChunkLocation at, int64_t now_s, std::span<std::byte> record) {
  INCIPIT_ASSIGN_OR_RETURN(const std::shared_ptr<File> file, files_.Get(at.segment));
  INCIPIT_RETURN_IF_ERROR(file->Read(layout_.OffsetOf(at.index), record));
  const RejectReason reason = VerifyAnyRecord(options_.record, options_.fingerprint, record, now_s);
  if (reason == RejectReason::kOk) return absl::OkStatus();
  return MakeStatus(absl::StatusCode::kOutOfRange, "record {} of segment {} is not valid: {}",
                    at.index, at.segment, NameIn(kRejectReasonNames, reason));
}

absl::Status SegmentStore::Erase(ChunkLocation at) {
  auto file = files_.Get(at.segment);
  if (absl::IsNotFound(file.status())) return absl::OkStatus();
  INCIPIT_RETURN_IF_ERROR(file.status());
  std::ranges::fill(page_.bytes(), std::byte{0});
  if (active_ && active_->number == at.segment) {
    std::erase_if(active_->entries, [&](const TableEntry& e) { return e.index == at.index; });
  }
  return (*file)->Write(layout_.OffsetOf(at.index), page_.bytes());
}

absl::StatusOr<std::optional<ReclaimableSegments>> SegmentStore::SegmentsToReclaim() {
  while (!FitsOneMore() && !segments_.empty()) {
    if (segments_.front().is_own) {
      ReclaimableSegments found;
      for (const Segment& segment : segments_) {
        if (!segment.is_own) {
          if (found.oldest_other == kNoSegment) found.oldest_other = segment.number;
        } else if (!active_ || segment.number != active_->number) {
          found.own.push_back(segment.number);
        }
      }
      if (found.own.empty()) return std::nullopt;
      return found;
    }
    if (active_) return std::nullopt;
    INCIPIT_RETURN_IF_ERROR(RemoveAt(0));
  }
  return std::nullopt;
}

absl::Status SegmentStore::RemoveOldestOther() {
  const auto oldest = std::ranges::find(segments_, false, &Segment::is_own);
  if (oldest == segments_.end()) return absl::OkStatus();
  return RemoveAt(static_cast<size_t>(oldest - segments_.begin()));
}

absl::Status SegmentStore::RemoveSegment(uint32_t number) {
  for (size_t i = 0; i < segments_.size(); ++i) {
    if (segments_[i].is_own && segments_[i].number == number) return RemoveAt(i);
  }
  return absl::OkStatus();
}

absl::Status SegmentStore::RemoveAll() {
  for (size_t i = segments_.size(); i-- > 0;) {
    if (segments_[i].is_own) INCIPIT_RETURN_IF_ERROR(RemoveAt(i));
  }
  return absl::OkStatus();
}

}  // namespace incipit
