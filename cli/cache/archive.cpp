#include "cli/cache/archive.h"

#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/status.h"

namespace incipit {
namespace {

// The first bytes of an archive.
struct ArchiveHeader {
  uint64_t magic = kArchiveMagic;
  uint32_t version = kArchiveVersion;
  uint32_t reserved = 0;
};
static_assert(sizeof(ArchiveHeader) == 16);

template <typename T>
std::span<const std::byte> BytesOf(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}
template <typename T>
std::span<std::byte> WritableBytesOf(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

}  // namespace

void ArchiveDigest::Add(const ArchiveItem& item, std::span<const std::byte> checksum) {
  std::array<uint8_t, sizeof(Xxh3Digest) + sizeof(ArchiveItem) + kChecksumBytes> message{};
  INCIPIT_CHECK(checksum.size() <= kChecksumBytes);
  std::memcpy(message.data(), value_.data(), value_.size());
  std::memcpy(message.data() + value_.size(), &item, sizeof(item));
  if (!checksum.empty()) {
    std::memcpy(message.data() + value_.size() + sizeof(item), checksum.data(), checksum.size());
  }
  value_ = Xxh3(message);
}

absl::Status ArchiveWriter::Begin() { return file_.Write(BytesOf(ArchiveHeader())); }

absl::Status ArchiveWriter::Write(const ArchiveItem& item) { return file_.Write(BytesOf(item)); }

absl::Status ArchiveWriter::BeginSection(const Fingerprint& fingerprint,
                                         const RecordLayout& layout) {
  const ArchiveItem item = {.kind = static_cast<uint32_t>(ArchiveItemKind::kSection),
                            .num_tokens = layout.num_tokens,
                            .payload_bytes = layout.payload_bytes,
                            .record_bytes = layout.record_bytes,
                            .fingerprint = fingerprint};
  digest_.Add(item, {});
  return Write(item);
}

absl::Status ArchiveWriter::AddRecord(std::span<const std::byte> record) {
  const ArchiveItem item = {.kind = static_cast<uint32_t>(ArchiveItemKind::kRecord)};
  digest_.Add(item, record.last(kChecksumBytes));
  ++num_records_;
  INCIPIT_RETURN_IF_ERROR(Write(item));
  return file_.Write(record);
}

absl::Status ArchiveWriter::Finish() {
  const ArchiveItem item = {.kind = static_cast<uint32_t>(ArchiveItemKind::kEnd),
                            .num_records = num_records_};
  digest_.Add(item, {});
  INCIPIT_RETURN_IF_ERROR(Write(item));
  return file_.Write(BytesOf(digest_.value()));
}

absl::Status ArchiveReader::Begin() {
  ArchiveHeader header;
  const absl::Status status = file_.Read(WritableBytesOf(header));
  if (!status.ok() && !absl::IsOutOfRange(status)) return status;
  if (!status.ok() || header.magic != kArchiveMagic) {
    return InvalidArgument("the file was not written by `incipit cache export`");
  }
  if (header.version == kArchiveVersion) return absl::OkStatus();
  return InvalidArgument("the file has the format version {}; this program reads version {}",
                         header.version, kArchiveVersion);
}

absl::StatusOr<ArchiveItemKind> ArchiveReader::Next() {
  ArchiveItem item;
  INCIPIT_RETURN_IF_ERROR(file_.Read(WritableBytesOf(item)));
  const auto kind = static_cast<ArchiveItemKind>(item.kind);
  if (kind == ArchiveItemKind::kRecord && section_) {
    INCIPIT_RETURN_IF_ERROR(file_.Read(record_->bytes()));
    digest_.Add(item, record_->bytes().last(kChecksumBytes));
    ++num_records_;
  } else if (kind == ArchiveItemKind::kSection) {
    INCIPIT_RETURN_IF_ERROR(ReadSection(item));
  } else if (kind == ArchiveItemKind::kEnd) {
    INCIPIT_RETURN_IF_ERROR(ReadEnd(item));
  } else {
    return InvalidArgument("the file is damaged after record {}", num_records_);
  }
  return kind;
}

absl::Status ArchiveReader::ReadSection(const ArchiveItem& item) {
  digest_.Add(item, {});
  RecordHeader header;
  header.num_tokens = item.num_tokens;
  header.payload_bytes = item.payload_bytes;
  const std::optional<RecordLayout> layout = LayoutOf(header, item.record_bytes);
  if (!layout || layout->record_bytes > record_bytes_max_) {
    return InvalidArgument("the file is damaged after record {}: impossible size of a record",
                           num_records_);
  }
  section_.emplace(Section{item.fingerprint, *layout});
  record_.emplace(layout->record_bytes);
  return absl::OkStatus();
}

absl::Status ArchiveReader::ReadEnd(const ArchiveItem& item) {
  digest_.Add(item, {});
  Xxh3Digest digest;
  INCIPIT_RETURN_IF_ERROR(file_.Read(WritableBytesOf(digest)));
  if (digest == digest_.value() && item.num_records == num_records_) return absl::OkStatus();
  return MakeStatus(absl::StatusCode::kDataLoss, "the checksum of the whole file is wrong");
}

}  // namespace incipit
