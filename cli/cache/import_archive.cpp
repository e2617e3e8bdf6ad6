#include "cli/cache/import_archive.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "base/status.h"
#include "cli/cache/archive.h"
#include "tier/chunk_index.h"
#include "tier/files/page_buffer.h"

namespace incipit {
namespace {

// Maximum number of chunks in the index of an import. If a folder has more chunks, chunks that the
// index does not contain are imported again.
constexpr uint64_t kIndexedChunksMax = uint64_t{1} << 26;

class Importer {
 public:
  Importer(FileSystem& files, const ImportOptions& options, ImportResult& result)
      : files_(files), options_(options), result_(result) {}

  absl::Status BeginSection(const ArchiveReader::Section& section) {
    INCIPIT_RETURN_IF_ERROR(EndSection());
    fingerprint_ = section.fingerprint;
    const RecordLayout& layout = section.layout;
    if (SegmentLayout(options_.segment_bytes, layout.record_bytes).num_records == 0) {
      return InvalidArgument("a record of {} bytes does not fit into a segment of {} bytes",
                             layout.record_bytes, options_.segment_bytes);
    }
    const uint64_t capacity =
        std::min(kIndexedChunksMax, options_.size_bytes / layout.record_bytes + 1);
    index_ = std::make_unique<ChunkIndex>(static_cast<uint32_t>(capacity));
    store_ = std::make_unique<SegmentStore>(
        files_, SegmentStoreOptions{.fingerprint = fingerprint_,
                                    .record = layout,
                                    .segment_bytes = options_.segment_bytes,
                                    .size_bytes = options_.size_bytes});
    return store_->Open(options_.now_s, *index_);
  }

  absl::Status AddRecord(const ArchiveReader::Section& section, std::span<const std::byte> record) {
    const RejectReason reason =
        VerifyAnyRecord(section.layout, fingerprint_, record, options_.now_s);
    if (reason != RejectReason::kOk) {
      ++(reason == RejectReason::kExpired ? result_.num_expired : result_.num_damaged);
      return absl::OkStatus();
    }
    const RecordHeader header = HeaderOf(record);
    if (index_->Find(header.key) != nullptr) {
      ++result_.num_present;
      return absl::OkStatus();
    }
    INCIPIT_RETURN_IF_ERROR(MakeRoom());
    INCIPIT_ASSIGN_OR_RETURN(const ChunkLocation at, store_->Append(record));
    INCIPIT_RETURN_IF_ERROR(store_->SealIfFull());
    index_->Insert({.key = header.key,
                    .parent = header.parent.prefix(),
                    .is_first = header.first_token == 0,
                    .at = at});
    has_appended_ = true;
    ++result_.num_imported;
    result_.num_bytes += record.size();
    return absl::OkStatus();
  }

  absl::Status EndSection() {
    if (store_ == nullptr) return absl::OkStatus();
    const absl::Status status = has_appended_ ? store_->SealActive() : absl::OkStatus();
    store_->Close();
    has_appended_ = false;
    store_.reset();
    return status;
  }

 private:
  // Removes the oldest segments until the next record fits.
  absl::Status MakeRoom() {
    while (!store_->CanAppend()) {
      INCIPIT_ASSIGN_OR_RETURN(const auto segments, store_->SegmentsToReclaim());
      if (!segments && store_->CanAppend()) break;
      if (!segments) {
        return ResourceExhausted("the folder has no room for a segment of {} bytes",
                                 options_.segment_bytes);
      }
      const uint32_t oldest = segments->own.front();
      INCIPIT_RETURN_IF_ERROR(store_->RemoveSegment(oldest));
      result_.num_reclaimed += index_->EraseSegment(oldest);
    }
    return absl::OkStatus();
  }

  FileSystem& files_;
  const ImportOptions options_;
  ImportResult& result_;
  Fingerprint fingerprint_{};
  std::unique_ptr<ChunkIndex> index_;
  std::unique_ptr<SegmentStore> store_;
  bool has_appended_ = false;  // true if the section has an imported record
};

absl::Status ReadArchive(ArchiveReader& reader, Importer& importer, Progress& progress) {
  INCIPIT_RETURN_IF_ERROR(reader.Begin());
  for (uint64_t num_records = 0;;) {
    INCIPIT_ASSIGN_OR_RETURN(const ArchiveItemKind kind, reader.Next());
    switch (kind) {
      case ArchiveItemKind::kSection:
        INCIPIT_RETURN_IF_ERROR(importer.BeginSection(reader.section()));
        break;
      case ArchiveItemKind::kRecord:
        INCIPIT_RETURN_IF_ERROR(importer.AddRecord(reader.section(), reader.record()));
        progress.Report(++num_records, 0, "records");
        break;
      case ArchiveItemKind::kEnd:
        return absl::OkStatus();
    }
  }
}

}  // namespace

ImportResult ImportArchive(InputFile& archive, FileSystem& files, const ImportOptions& options,
                           Progress& progress) {
  ImportResult result;
  ArchiveReader reader(archive, options.segment_bytes);
  Importer importer(files, options, result);
  result.status = ReadArchive(reader, importer, progress);
  // Also after an error, seal the segment with the records that were imported.
  const absl::Status sealed = importer.EndSection();
  if (result.status.ok()) result.status = sealed;
  return result;
}

}  // namespace incipit
