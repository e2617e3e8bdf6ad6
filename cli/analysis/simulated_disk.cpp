#include "cli/analysis/simulated_disk.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "base/check.h"

namespace incipit {
namespace {

BlockHash KeyOf(SimulatedDisk::Chunk chunk) {
  BlockHash key;
  std::memcpy(key.bytes.data(), &chunk, sizeof(chunk));
  return key;
}

size_t ChunksPerSegment(const SimulatedDiskOptions& options) {
  INCIPIT_CHECK(options.chunk_bytes > 0 && options.segments_max >= 2 && options.chunks_max > 0);
  return static_cast<size_t>(std::max<int64_t>(1, options.segment_bytes / options.chunk_bytes));
}

// Returns the maximum number of chunks on the disk.
uint32_t IndexCapacity(const SimulatedDiskOptions& options) {
  const auto per_segment = static_cast<int64_t>(ChunksPerSegment(options));
  const int64_t segments_max = std::min(options.segments_max, options.chunks_max / per_segment + 1);
  return static_cast<uint32_t>(std::min(options.chunks_max, segments_max * per_segment));
}

}  // namespace

SimulatedDisk::SimulatedDisk(const SimulatedDiskOptions& options)
    : options_(options),
      chunks_per_segment_(ChunksPerSegment(options)),
      index_(IndexCapacity(options)) {
  INCIPIT_CHECK(options.write_bytes_per_s >= 0);
}

bool SimulatedDisk::Has(Chunk chunk) const { return index_.Find(KeyOf(chunk)) != nullptr; }

void SimulatedDisk::Load(Chunk chunk) {
  INCIPIT_CHECK(Has(chunk));
  index_.AddHit(KeyOf(chunk));
  ++counts_.loaded;
}

void SimulatedDisk::Store(Chunk chunk, double when) {
  if (Has(chunk)) return index_.Touch(KeyOf(chunk));
  if (!waiting_.insert(chunk).second) return;
  announced_.push({.when = when, .order = num_announced_++, .chunk = chunk});
}

void SimulatedDisk::Advance(double now) {
  while (true) {
    const bool has_announced = !announced_.empty() && announced_.top().when <= now;
    const bool has_write = !queue_.empty() && write_end_ <= now;
    if (has_write && (!has_announced || write_end_ <= announced_.top().when)) {
      EndWrite();
    } else if (has_announced) {
      const Announced next = announced_.top();
      announced_.pop();
      if (has_room_in_queue()) {
        Enqueue(next.chunk, next.when);
      } else {
        ++counts_.dropped_stores;
        waiting_.erase(next.chunk);
      }
    } else {
      return;
    }
  }
}

double SimulatedDisk::WriteSeconds() const {
  if (options_.write_bytes_per_s == 0) return 0;
  return static_cast<double>(options_.chunk_bytes) / options_.write_bytes_per_s;
}

void SimulatedDisk::Enqueue(Chunk chunk, double when) {
  if (queue_.empty()) write_end_ = std::max(write_end_, when) + WriteSeconds();
  queue_.push_back({.chunk = chunk});
}

// Ends the write of the chunk at the front of the queue, and begins the next write.
void SimulatedDisk::EndWrite() {
  const QueuedWrite write = queue_.front();
  queue_.pop_front();
  if (segments_.empty() || segments_.back().chunks.size() == chunks_per_segment_) {
    if (has_all_segments()) Reclaim();
    segments_.push_back({.number = next_number_++});
  }
  Segment& newest = segments_.back();
  const ChunkLocation at = {newest.number, static_cast<uint32_t>(newest.chunks.size())};
  newest.chunks.push_back(write.chunk);
  if (write.moved_from) {
    INCIPIT_CHECK(index_.Move(KeyOf(write.chunk), *write.moved_from, at));
    ++counts_.moved;
    // The last move ends the use of the number of the segment.
    const bool is_last = queue_.empty() || !queue_.front().moved_from;
    if (is_last) index_.EraseSegment(write.moved_from->segment);
  } else {
    waiting_.erase(write.chunk);
    // The index needs some parent. Equal parents would make removals slow.
    const BlockHash key = KeyOf(write.chunk);
    INCIPIT_CHECK(index_.Insert({.key = key, .parent = key.prefix(), .at = at}));
    ++counts_.stored;
  }
  const bool is_full = newest.chunks.size() == chunks_per_segment_;
  const bool is_half_full = 2 * newest.chunks.size() >= chunks_per_segment_;
  if (has_all_segments() && is_half_full && !is_full) Reclaim();
  if (!queue_.empty()) write_end_ += WriteSeconds();
}

// Removes the segment that ChunkIndex chooses. Queues the writes of the chunks that are kept.
void SimulatedDisk::Reclaim() {
  std::vector<uint32_t> numbers, kept;
  const bool is_writing = segments_.back().chunks.size() < chunks_per_segment_;
  for (const Segment& segment : segments_) numbers.push_back(segment.number);
  if (is_writing) numbers.pop_back();
  const SegmentUse least = index_.FindLeastUsed(numbers, chunks_per_segment_, kept);
  index_.ListKept(least, chunks_per_segment_ / 2, 0, kept);
  const auto removed = std::ranges::find(segments_, least.segment, &Segment::number);
  // `queue_` begins with the chunks to move, in the order of `kept`.
  size_t num_moved = 0;
  for (; num_moved < kept.size() && has_room_in_queue(); ++num_moved) {
    const ChunkLocation from = {least.segment, kept[num_moved]};
    queue_.insert(queue_.begin() + static_cast<ptrdiff_t>(num_moved),
                  {.chunk = removed->chunks[from.index], .moved_from = from});
  }
  kept.resize(num_moved);
  for (uint32_t i = 0; i < removed->chunks.size(); ++i) {
    if (std::ranges::find(kept, i) != kept.end()) continue;
    counts_.reclaimed += index_.Erase(KeyOf(removed->chunks[i]), {least.segment, i});
  }
  if (num_moved == 0) index_.EraseSegment(least.segment);
  segments_.erase(removed);
}

}  // namespace incipit
