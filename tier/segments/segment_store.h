// SegmentStore: the segments of one directory. Appends records to the newest segment, removes
// segments, and finds all records at the start.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tier/chunk_index.h"
#include "tier/files/file_system.h"
#include "tier/files/page_buffer.h"
#include "tier/segments/record.h"
#include "tier/segments/segment.h"
#include "tier/segments/segment_files.h"

namespace incipit {

// Size of a segment, except in tests.
inline constexpr uint64_t kSegmentBytes = uint64_t{64} << 20;

struct SegmentStoreOptions {
  Fingerprint fingerprint{};
  RecordLayout record;
  uint64_t segment_bytes = 0;
  uint64_t size_bytes = 0;  // maximum size of all segments in the directory
};

// The segments of which one may be removed, so that a new segment fits.
struct ReclaimableSegments {
  std::vector<uint32_t> own;  // sorted numbers of the sealed segments of the own fingerprint
  uint32_t oldest_other = kNoSegment;  // oldest segment of other fingerprints, if there is one
};

// Only files() may be used by several threads. Every error of a file system call is returned; the
// caller must then call Close.
class SegmentStore {
 public:
  SegmentStore(FileSystem& file_system, const SegmentStoreOptions& options);

  // Lists the segments and adds their records to `index`. If the segments exceed
  // options.size_bytes, first removes the oldest segments. `now_s` is the time in seconds since
  // 1970.
  absl::Status Open(int64_t now_s, ChunkIndex& index);
  void Close();

  // Returns true if the next record fits into the newest segment, or if a new segment fits into
  // options.size_bytes.
  bool CanAppend() const;
  // Writes a sealed record. The caller must call SealIfFull before the next call of Append.
  // REQUIRES: CanAppend().
  absl::StatusOr<ChunkLocation> Append(std::span<const std::byte> record);
  // If the segment to which records are appended is full, writes its table. If the table cannot be
  // written, the appended record stays valid, and the next Open finds the record.
  absl::Status SealIfFull();
  // Writes the table of the segment to which records are appended, if there is one. The next record
  // begins a new segment.
  absl::Status SealActive();
  // Reads the record at `at` into `record`. Returns OUT_OF_RANGE if the record is not valid.
  absl::Status Read(ChunkLocation at, int64_t now_s, std::span<std::byte> record);
  // Makes the record at `at` invalid on the disk. Returns OK also if the segment does not exist.
  absl::Status Erase(ChunkLocation at);

  // Returns true if the newest segment is at least half full, but not full. The caller may then
  // move records of another segment to the newest segment.
  bool IsHalfFull() const { return active_ && 2 * active_->next_index >= layout_.num_records; }
  // Returns the segments of which the caller must remove one before a new segment fits; `own` is
  // not empty. Returns std::nullopt if no segment must be removed now. If the newest segment is
  // full, first removes segments of other fingerprints that are the oldest segments.
  absl::StatusOr<std::optional<ReclaimableSegments>> SegmentsToReclaim();
  absl::Status RemoveSegment(uint32_t number);
  // Removes the oldest segment of other fingerprints, if there is one.
  absl::Status RemoveOldestOther();
  // Returns the highest number of a segment so far; 0: no segment.
  uint32_t newest_number() const { return next_number_ - 1; }
  // Removes all segments of the fingerprint.
  absl::Status RemoveAll();

  SegmentFiles& files() { return files_; }
  uint64_t num_bytes() const { return num_bytes_; }
  uint32_t records_per_segment() const { return layout_.num_records; }

 private:
  struct Segment {
    uint32_t number = 0;
    std::string name;
    uint64_t num_bytes = 0;
    bool is_own = false;  // true if the segment has the own fingerprint
  };
  // The segment to which records are appended.
  struct Active {
    uint32_t number = 0;
    std::shared_ptr<File> file;
    std::vector<TableEntry> entries;
    uint32_t next_index = 0;
  };

  SegmentHeader HeaderFor(uint32_t number) const;
  bool FitsOneMore() const { return num_bytes_ + options_.segment_bytes <= options_.size_bytes; }
  absl::Status ListSegments();
  absl::Status RemoveAt(size_t position);
  absl::Status Recover(const Segment& segment, int64_t now_s, ChunkIndex& index);
  absl::Status Scan(const Segment& segment, File& file, int64_t now_s, bool is_complete);
  absl::Status StartSegment();
  absl::Status Seal(File& file, uint32_t number, std::span<const TableEntry> entries);

  FileSystem& file_system_;
  const SegmentStoreOptions options_;
  const SegmentLayout layout_;
  SegmentFiles files_;
  PageBuffer table_, page_, record_;
  std::vector<Segment> segments_;  // sorted by number
  std::vector<TableEntry> entries_;
  // Older copies of records that Open found twice, because a process ended while it moved the
  // record. Open erases the older copies. Otherwise, an older copy could be loaded after the
  // removal of the newer copy.
  std::vector<ChunkLocation> older_copies_;
  std::vector<uint32_t> unusable_;  // segments whose header is not valid
  std::optional<Active> active_;
  uint64_t num_bytes_ = 0;
  // Number of the next segment. No number is used twice, so a stale ChunkLocation never refers to a
  // newer record.
  uint32_t next_number_ = 1;
};

}  // namespace incipit
