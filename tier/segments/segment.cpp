#include "tier/segments/segment.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "base/hash/xxh3.h"
#include "tier/files/posix_file_system.h"

namespace incipit {
namespace {

constexpr uint64_t kHeaderMagic = 0x4d47'4553'4b43'4e49;  // "INCKSEGM"
constexpr uint64_t kTableMagic = 0x4c42'4154'4b43'4e49;   // "INCKTABL"
constexpr size_t kNumberDigits = 8;

struct TableHeader {
  SegmentHeader segment;
  uint64_t num_entries = 0;
};

size_t TableBytes(uint64_t num_records) {
  return RoundUp(sizeof(TableHeader) + num_records * sizeof(TableEntry) + kChecksumBytes,
                 kPageBytes);
}

void WriteChecksum(std::span<std::byte> bytes) { SealRecord(bytes); }

bool ChecksumIsRight(std::span<const std::byte> bytes) {
  const Xxh3Digest checksum =
      Xxh3({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size() - kChecksumBytes});
  return std::memcmp(checksum.data(), bytes.last(kChecksumBytes).data(), kChecksumBytes) == 0;
}

bool SameSegment(const SegmentHeader& a, const SegmentHeader& b) {
  return a.version == b.version && a.number == b.number && a.fingerprint == b.fingerprint &&
         a.file_bytes == b.file_bytes && a.record_bytes == b.record_bytes;
}

}  // namespace

SegmentLayout::SegmentLayout(uint64_t file_size, size_t record_size)
    : file_bytes(file_size), record_bytes(record_size) {
  if (file_bytes < kPageBytes) return;
  uint64_t count = std::min<uint64_t>((file_bytes - kPageBytes) / record_bytes,
                                      std::numeric_limits<uint32_t>::max());
  while (count > 0 && kPageBytes + count * record_bytes + TableBytes(count) > file_bytes) --count;
  num_records = static_cast<uint32_t>(count);
  table_bytes = TableBytes(count);
}

TableEntry EntryOf(const RecordHeader& record, uint32_t index) {
  return {.key = record.key,
          .parent = record.parent,
          .first_token = record.first_token,
          .tenant = record.tenant,
          .created_s = record.created_s,
          .expires_s = record.expires_s,
          .priority = record.priority,
          .index = index};
}

void EncodeHeader(const SegmentHeader& header, std::span<std::byte> page) {
  INCIPIT_CHECK(page.size() == kPageBytes);
  SegmentHeader written = header;
  written.magic = kHeaderMagic;
  std::ranges::fill(page, std::byte{0});
  std::memcpy(page.data(), &written, sizeof(written));
  WriteChecksum(page);
}

std::optional<SegmentHeader> DecodeHeader(std::span<const std::byte> page) {
  SegmentHeader header;
  std::memcpy(&header, page.data(), sizeof(header));
  if (header.magic != kHeaderMagic || header.version != kRecordVersion || !ChecksumIsRight(page)) {
    return std::nullopt;
  }
  return header;
}

void EncodeTable(const SegmentHeader& header, std::span<const TableEntry> entries,
                 std::span<std::byte> out) {
  INCIPIT_CHECK(TableBytes(entries.size()) <= out.size());
  TableHeader table = {.segment = header, .num_entries = entries.size()};
  table.segment.magic = kTableMagic;
  std::ranges::fill(out, std::byte{0});
  std::memcpy(out.data(), &table, sizeof(table));
  if (!entries.empty()) {
    std::memcpy(out.data() + sizeof(table), entries.data(), entries.size_bytes());
  }
  WriteChecksum(out);
}

bool DecodeTable(const SegmentHeader& header, std::span<const std::byte> table,
                 std::vector<TableEntry>& entries) {
  TableHeader found;
  std::memcpy(&found, table.data(), sizeof(found));
  if (found.segment.magic != kTableMagic || !SameSegment(found.segment, header)) return false;
  const size_t entries_max =
      (table.size() - sizeof(TableHeader) - kChecksumBytes) / sizeof(TableEntry);
  if (found.num_entries > entries_max || !ChecksumIsRight(table)) return false;
  entries.resize(found.num_entries);
  if (entries.empty()) return true;
  std::memcpy(entries.data(), table.data() + sizeof(found), entries.size() * sizeof(TableEntry));
  return true;
}

std::string FingerprintName(const Fingerprint& fingerprint) {
  return fmt::format("{:02x}", fmt::join(std::span(fingerprint).first(kFingerprintDigits / 2), ""));
}

bool IsFingerprintName(std::string_view name) {
  return name.size() == kFingerprintDigits && std::ranges::all_of(name, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

std::string SegmentName(const Fingerprint& fingerprint, uint32_t number) {
  return fmt::format("{}-{:08x}{}", FingerprintName(fingerprint), number, kSegmentSuffix);
}

std::optional<uint32_t> SegmentNumber(std::string_view name) {
  constexpr size_t kLength = kFingerprintDigits + 1 + kNumberDigits + sizeof(kSegmentSuffix) - 1;
  if (name.size() != kLength || name[kFingerprintDigits] != '-') return std::nullopt;
  uint32_t number = 0;
  const char* const begin = name.data() + kFingerprintDigits + 1;
  const auto [end, error] = std::from_chars(begin, begin + kNumberDigits, number, 16);
  if (error != std::errc() || end != begin + kNumberDigits || number == 0) return std::nullopt;
  return number;
}

}  // namespace incipit
