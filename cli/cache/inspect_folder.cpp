#include "cli/cache/inspect_folder.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/status.h"
#include "tier/chunk_uses.h"
#include "tier/segments/segment.h"
#include "tier/segments/segment_reader.h"

namespace incipit {
namespace {

class Inspector {
 public:
  Inspector(const CacheFolder& folder, int64_t now_s) : folder_(folder), now_s_(now_s) {}

  void Add(const SegmentFile& segment) {
    auto reader = SegmentReader::Open(folder_, segment);
    if (absl::IsNotFound(reader.status())) return;
    Part& part = parts_[segment.name.substr(0, kFingerprintDigits)];
    ++part.contents.num_segments;
    part.contents.num_bytes += segment.num_bytes;
    if (!reader.ok() || !AddRecords(*reader, part)) ++part.contents.num_damaged;
  }

  std::vector<FingerprintContents> Take() {
    std::vector<FingerprintContents> all;
    for (auto& [name, part] : parts_) {
      part.contents.name = name;
      AddHits(part);
      part.contents.prefixes = GroupByPrefix(part.chunks);
      std::ranges::sort(part.contents.prefixes, [](const StoredPrefix& a, const StoredPrefix& b) {
        return a.num_chunks != b.num_chunks ? a.num_chunks > b.num_chunks : a.key < b.key;
      });
      all.push_back(std::move(part.contents));
    }
    return all;
  }

 private:
  struct Part {
    FingerprintContents contents;
    Fingerprint fingerprint{};
    std::vector<StoredChunk> chunks;  // oldest segment first
  };

  // Returns false if the segment cannot be read.
  bool AddRecords(SegmentReader& reader, Part& part) {
    uint64_t& record_bytes = part.contents.record_bytes;
    if (record_bytes == 0) {
      record_bytes = reader.header().record_bytes;
      part.fingerprint = reader.header().fingerprint;
    }
    if (record_bytes != reader.header().record_bytes) return false;
    if (reader.table() == SegmentReader::Table::kSealed) {
      for (const TableEntry& entry : reader.entries()) AddEntry(entry, part);
      if (part.contents.chunk_tokens == 0 && !reader.entries().empty()) {
        const auto header = reader.ReadHeader(reader.entries().front().index);
        if (header.ok() && *header) part.contents.chunk_tokens = (*header)->num_tokens;
      }
      return true;
    }
    for (uint32_t i = 0; i < reader.num_records(); ++i) {
      const auto header = reader.ReadHeader(i);
      if (!header.ok()) return absl::IsOutOfRange(header.status());  // the file was truncated
      if (!*header) continue;
      if (part.contents.chunk_tokens == 0) part.contents.chunk_tokens = (*header)->num_tokens;
      AddEntry(EntryOf(**header, i), part);
    }
    return true;
  }

  // Adds the hits that the last clean end of a server has written.
  void AddHits(Part& part) const {
    const auto contents = folder_.ReadAll(UsesName(part.fingerprint), kUsesBytesMax);
    if (!contents.ok()) return;
    const auto uses = DecodeUses(part.fingerprint, *contents);
    if (!uses) return;
    absl::flat_hash_map<uint64_t, uint32_t> hits;
    hits.reserve(uses->size());
    for (const ChunkUses& chunk : *uses) hits[chunk.key] = chunk.hits;
    for (StoredChunk& chunk : part.chunks) {
      if (const auto found = hits.find(chunk.key); found != hits.end()) chunk.hits = found->second;
    }
  }

  void AddEntry(const TableEntry& entry, Part& part) const {
    ++part.contents.num_records;
    if (entry.expires_s != 0 && entry.expires_s <= now_s_) {
      ++part.contents.num_expired;
      return;
    }
    part.chunks.push_back({.key = entry.key.prefix(),
                           .parent = entry.parent.prefix(),
                           .first_token = entry.first_token,
                           .tenant = entry.tenant,
                           // The file may have any contents. So limit the age of the chunk.
                           .created_s = std::max<int64_t>(entry.created_s, 0),
                           .expires_s = entry.expires_s});
  }

  const CacheFolder& folder_;
  const int64_t now_s_;
  std::map<std::string, Part> parts_;  // by the name of the fingerprint
};

}  // namespace

absl::StatusOr<std::vector<FingerprintContents>> InspectFolder(const CacheFolder& folder,
                                                               int64_t now_s, Progress& progress) {
  INCIPIT_ASSIGN_OR_RETURN(const std::vector<SegmentFile> segments, folder.ListSegments());
  Inspector inspector(folder, now_s);
  for (size_t i = 0; i < segments.size(); ++i) {
    inspector.Add(segments[i]);
    progress.Report(i + 1, segments.size(), "segments");
  }
  return inspector.Take();
}

}  // namespace incipit
