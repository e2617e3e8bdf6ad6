#include "cli/cache/verify_folder.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "base/status.h"
#include "tier/segments/record.h"
#include "tier/segments/segment.h"
#include "tier/segments/segment_reader.h"

namespace incipit {
namespace {

Xxh3Digest DigestOf(std::span<const std::byte> bytes) {
  return Xxh3({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

bool SameEntry(const TableEntry& a, const TableEntry& b) {
  return std::memcmp(&a, &b, sizeof(TableEntry)) == 0;
}

// Verifies one segment and adds the result to a CacheVerification.
class SegmentVerifier {
 public:
  SegmentVerifier(const CacheFolder& folder, int64_t now_s, CacheVerification& result)
      : folder_(folder), now_s_(now_s), result_(result) {}

  void Verify(const SegmentFile& segment) {
    name_ = segment.name;
    auto reader = SegmentReader::Open(folder_, segment);
    // The segment was removed after the folder was listed.
    if (absl::IsNotFound(reader.status())) return;
    ++result_.num_segments;
    result_.num_bytes += segment.num_bytes;
    if (!reader.ok()) return AddDamage(CacheDamage::kSegment, MessageOf(reader.status()), {});
    if (reader->is_truncated()) {
      AddDamage(CacheDamage::kSegment,
                fmt::format("{}: the file has {} of {} bytes", name_, segment.num_bytes,
                            reader->header().file_bytes),
                {});
    }
    if (reader->table() == SegmentReader::Table::kDamaged) {
      AddDamage(CacheDamage::kSegment, fmt::format("{}: the table is damaged", name_), {});
    }
    entries_.assign(reader->num_records(), nullptr);
    for (const TableEntry& entry : reader->entries()) entries_[entry.index] = &entry;
    for (uint32_t i = 0; i < reader->num_records(); ++i) {
      if (!VerifyRecordAt(*reader, i)) return;
    }
  }

 private:
  // Returns false if the disk cannot read the record.
  bool VerifyRecordAt(SegmentReader& reader, uint32_t index) {
    const TableEntry* const entry = entries_[index];
    const auto record = reader.ReadRecord(index);
    if (!record.ok()) {
      AddDamage(CacheDamage::kSegment, MessageOf(record.status()), {});
      return false;
    }
    if (IsUnused(*record)) {
      if (entry != nullptr) ++result_.num_erased;
      return true;
    }
    const RejectReason reason = VerifyAnyRecord(reader.header().fingerprint, *record, now_s_);
    const bool is_sealed = reader.table() == SegmentReader::Table::kSealed;
    if (reason == RejectReason::kExpired) {
      ++result_.num_expired;
    } else if (reason != RejectReason::kOk) {
      AddDamage(index, std::string(NameIn(kRejectReasonNames, reason)), DigestOf(*record));
    } else if (is_sealed &&
               (entry == nullptr || !SameEntry(*entry, EntryOf(HeaderOf(*record), index)))) {
      AddDamage(index, "table", DigestOf(*record));
    } else {
      ++result_.num_good;
    }
    return true;
  }

  void AddDamage(int64_t index, std::string reason, const Xxh3Digest& bytes) {
    result_.damages.push_back(
        {.segment = name_, .index = index, .reason = std::move(reason), .bytes = bytes});
  }

  const CacheFolder& folder_;
  const int64_t now_s_;
  CacheVerification& result_;
  std::string name_;
  std::vector<const TableEntry*> entries_;  // by the index of the record; null: not in the table
};

void Add(const CacheVerification& segment, CacheVerification& total) {
  total.num_segments += segment.num_segments;
  total.num_good += segment.num_good;
  total.num_expired += segment.num_expired;
  total.num_erased += segment.num_erased;
  total.num_changing += segment.num_changing;
  total.num_bytes += segment.num_bytes;
  total.damages.insert(total.damages.end(), segment.damages.begin(), segment.damages.end());
}

bool SameDamage(const CacheDamage& a, const CacheDamage& b) {
  return a.index == b.index && a.reason == b.reason && a.bytes == b.bytes;
}

// Removes the damages of `second` that `first` does not have.
void KeepDamagesOfBoth(const CacheVerification& first, CacheVerification& second) {
  second.num_changing += std::erase_if(second.damages, [&](const CacheDamage& damage) {
    return std::ranges::none_of(
        first.damages, [&](const CacheDamage& other) { return SameDamage(damage, other); });
  });
}

CacheVerification VerifySegment(const CacheFolder& folder, const SegmentFile& segment,
                                int64_t now_s) {
  CacheVerification result;
  SegmentVerifier(folder, now_s, result).Verify(segment);
  return result;
}

}  // namespace

absl::StatusOr<FirstLook> LookFirst(const CacheFolder& folder, int64_t now_s, Progress& progress) {
  INCIPIT_ASSIGN_OR_RETURN(const std::vector<SegmentFile> segments, folder.ListSegments());
  FirstLook first;
  for (size_t i = 0; i < segments.size(); ++i) {
    CacheVerification result = VerifySegment(folder, segments[i], now_s);
    if (result.damages.empty()) {
      Add(result, first.total);
    } else {
      first.suspects.push_back(std::move(result));
    }
    progress.Report(i + 1, segments.size(), "segments");
  }
  return first;
}

absl::StatusOr<CacheVerification> LookAgain(const CacheFolder& folder, int64_t now_s,
                                            const FirstLook& first) {
  CacheVerification total = first.total;
  if (first.suspects.empty()) return total;
  // List the folder again, because the sizes of the files may have changed.
  INCIPIT_ASSIGN_OR_RETURN(const std::vector<SegmentFile> segments, folder.ListSegments());
  for (const CacheVerification& suspect : first.suspects) {
    const std::string& name = suspect.damages.front().segment;
    const auto segment = std::ranges::find(segments, name, &SegmentFile::name);
    if (segment == segments.end()) continue;
    CacheVerification second = VerifySegment(folder, *segment, now_s);
    KeepDamagesOfBoth(suspect, second);
    Add(second, total);
  }
  return total;
}

absl::StatusOr<CacheVerification> VerifyFolder(const CacheFolder& folder, int64_t now_s,
                                               Progress& progress) {
  INCIPIT_ASSIGN_OR_RETURN(const FirstLook first, LookFirst(folder, now_s, progress));
  return LookAgain(folder, now_s, first);
}

}  // namespace incipit
