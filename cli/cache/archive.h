// Archives: files that contain the records of a disk cache, to move a cache to another machine.
// docs/tiers.md describes the format.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/hash/xxh3.h"
#include "cli/cache/archive_files.h"
#include "tier/files/page_buffer.h"
#include "tier/segments/record.h"

namespace incipit {

// "INCKARCH" in the order of bytes in the file.
inline constexpr uint64_t kArchiveMagic = 0x4843'5241'4b43'4e49;
inline constexpr uint32_t kArchiveVersion = 1;

// kSection: the records that follow have the fingerprint and the layout of the item. kRecord: the
// bytes of one record follow. kEnd: the digest of the archive follows.
enum class ArchiveItemKind : uint32_t { kSection = 1, kRecord = 2, kEnd = 3 };

// One item of an archive, in little-endian byte order.
struct ArchiveItem {
  uint32_t kind = 0;        // an ArchiveItemKind
  uint32_t num_tokens = 0;  // kSection: RecordLayout::num_tokens
  uint64_t payload_bytes = 0;
  uint64_t record_bytes = 0;
  uint64_t num_records = 0;  // kEnd: number of records in the archive
  Fingerprint fingerprint{};
};
static_assert(sizeof(ArchiveItem) == 64);

// Digest of the items of an archive and of the checksums of their records.
class ArchiveDigest {
 public:
  // If `item` is a record, `checksum` is the checksum of the record. Otherwise, `checksum` is
  // empty.
  void Add(const ArchiveItem& item, std::span<const std::byte> checksum);
  const Xxh3Digest& value() const { return value_; }

 private:
  Xxh3Digest value_{};
};

// Writes an archive. After an error, the archive must not be used.
class ArchiveWriter {
 public:
  explicit ArchiveWriter(OutputFile& file) : file_(file) {}
  // Begins the archive.
  absl::Status Begin();
  absl::Status BeginSection(const Fingerprint& fingerprint, const RecordLayout& layout);
  // Appends a sealed record. REQUIRES: the record has the fingerprint and the layout of the latest
  // section.
  absl::Status AddRecord(std::span<const std::byte> record);
  absl::Status Finish();
  uint64_t num_records() const { return num_records_; }

 private:
  absl::Status Write(const ArchiveItem& item);

  OutputFile& file_;
  ArchiveDigest digest_;
  uint64_t num_records_ = 0;
};

// Reads an archive. A damaged archive leads to an error or to wrong records, but not to a crash.
class ArchiveReader {
 public:
  struct Section {
    Fingerprint fingerprint;
    RecordLayout layout;
  };

  // Sections with records of more than `record_bytes_max` bytes are errors.
  ArchiveReader(InputFile& file, uint64_t record_bytes_max)
      : file_(file), record_bytes_max_(record_bytes_max) {}

  // Reads the beginning of the archive. Returns an error if the file is no archive of this version.
  absl::Status Begin();
  // Reads the next item. Returns INVALID_ARGUMENT if the item is not possible at this position,
  // OUT_OF_RANGE if the file is not complete, and DATA_LOSS if the digest of the archive differs.
  absl::StatusOr<ArchiveItemKind> Next();
  // Returns the latest section. REQUIRES: Next has returned kSection.
  const Section& section() const { return *section_; }
  // Returns the latest record, which is not verified. REQUIRES: Next has returned kRecord, and
  // was not called since.
  std::span<const std::byte> record() const { return record_->bytes(); }

 private:
  absl::Status ReadSection(const ArchiveItem& item);
  absl::Status ReadEnd(const ArchiveItem& item);

  InputFile& file_;
  const uint64_t record_bytes_max_;
  std::optional<Section> section_;
  std::optional<PageBuffer> record_;
  ArchiveDigest digest_;
  uint64_t num_records_ = 0;
};

}  // namespace incipit
