#include "cli/cache/export_folder.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/status.h"
#include "cli/cache/archive.h"
#include "tier/segments/segment.h"
#include "tier/segments/segment_reader.h"

namespace incipit {
namespace {

class Exporter {
 public:
  Exporter(const CacheFolder& folder, int64_t now_s, OutputFile& file,
           const std::atomic<bool>& is_cancelled)
      : folder_(folder), now_s_(now_s), writer_(file), is_cancelled_(is_cancelled) {}

  absl::Status Begin() { return writer_.Begin(); }
  absl::Status Finish() { return writer_.Finish(); }
  const ExportResult& result() const { return result_; }

  // Returns an error only if the archive cannot be written.
  absl::Status Add(const SegmentFile& segment) {
    auto reader = SegmentReader::Open(folder_, segment);
    if (absl::IsNotFound(reader.status())) return absl::OkStatus();
    if (!reader.ok()) {
      ++result_.num_damaged;
      return absl::OkStatus();
    }
    for (uint32_t i = 0; i < reader->num_records(); ++i) {
      if (is_cancelled_) return Cancelled("interrupted");
      const auto record = reader->ReadRecord(i);
      if (!record.ok()) {
        ++result_.num_damaged;
        return absl::OkStatus();
      }
      INCIPIT_RETURN_IF_ERROR(AddRecord(reader->header().fingerprint, *record));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status AddRecord(const Fingerprint& fingerprint, std::span<const std::byte> record) {
    if (IsUnused(record)) return absl::OkStatus();
    const RejectReason reason = VerifyAnyRecord(fingerprint, record, now_s_);
    if (reason != RejectReason::kOk) {
      ++(reason == RejectReason::kExpired ? result_.num_expired : result_.num_damaged);
      return absl::OkStatus();
    }
    const RecordLayout layout = *LayoutOf(HeaderOf(record), record.size());
    if (!section_ || section_->fingerprint != fingerprint ||
        section_->layout.num_tokens != layout.num_tokens ||
        section_->layout.payload_bytes != layout.payload_bytes) {
      section_.emplace(ArchiveReader::Section{fingerprint, layout});
      INCIPIT_RETURN_IF_ERROR(writer_.BeginSection(fingerprint, layout));
    }
    ++result_.num_exported;
    result_.num_bytes += record.size();
    return writer_.AddRecord(record);
  }

  const CacheFolder& folder_;
  const int64_t now_s_;
  ArchiveWriter writer_;
  const std::atomic<bool>& is_cancelled_;
  std::optional<ArchiveReader::Section> section_;
  ExportResult result_;
};

}  // namespace

absl::StatusOr<ExportResult> ExportFolder(const CacheFolder& folder, const ExportOptions& options,
                                          OutputFile& file, const std::atomic<bool>& is_cancelled,
                                          Progress& progress) {
  INCIPIT_ASSIGN_OR_RETURN(std::vector<SegmentFile> segments, folder.ListSegments());
  std::erase_if(segments, [&](const SegmentFile& segment) {
    return !segment.name.starts_with(options.fingerprint);
  });
  if (segments.empty()) return NotFound("the folder has no segment to export");
  // The names sort the segments by fingerprint, and the segments of a fingerprint by age.
  std::ranges::sort(segments, {}, &SegmentFile::name);
  Exporter exporter(folder, options.now_s, file, is_cancelled);
  INCIPIT_RETURN_IF_ERROR(exporter.Begin());
  for (size_t i = 0; i < segments.size(); ++i) {
    INCIPIT_RETURN_IF_ERROR(exporter.Add(segments[i]));
    progress.Report(i + 1, segments.size(), "segments");
  }
  INCIPIT_RETURN_IF_ERROR(exporter.Finish());
  INCIPIT_RETURN_IF_ERROR(file.Commit());
  return exporter.result();
}

}  // namespace incipit
