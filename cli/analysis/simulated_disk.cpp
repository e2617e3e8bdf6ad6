#include "cli/analysis/simulated_disk.h"

#include <algorithm>

#include "base/check.h"

namespace incipit {

SimulatedDisk::SimulatedDisk(const SimulatedDiskOptions& options)
    : options_(options),
      chunks_per_segment_(
          static_cast<size_t>(std::max<int64_t>(1, options.segment_bytes / options.chunk_bytes))) {
  INCIPIT_CHECK(options.chunk_bytes > 0 && options.segments_max >= 2);
  INCIPIT_CHECK(options.write_bytes_per_s >= 0);
}

bool SimulatedDisk::Has(Chunk chunk) const {
  const auto it = entries_.find(chunk);
  if (it == entries_.end()) return false;
  return it->second.state == State::kWritten || it->second.state == State::kMoving;
}

void SimulatedDisk::Load(Chunk chunk) {
  INCIPIT_CHECK(Has(chunk));
  Entry& entry = entries_[chunk];
  entry.is_used = true;
  entry.last_use = ++num_loads_;
  ++counts_.loaded;
}

void SimulatedDisk::Store(Chunk chunk, double when) {
  if (!entries_.try_emplace(chunk).second) return;
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
        entries_[next.chunk].state = State::kQueued;
        Enqueue(next.chunk, next.when);
      } else {
        ++counts_.dropped_stores;
        entries_.erase(next.chunk);
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
  queue_.push_back(chunk);
}

// Ends the write of the chunk at the front of the queue, and begins the next write.
void SimulatedDisk::EndWrite() {
  if (segments_.empty() || segments_.back().size() == chunks_per_segment_) {
    if (static_cast<int64_t>(segments_.size()) == options_.segments_max) ReclaimOldest();
    segments_.emplace_back();
  }
  const Chunk chunk = queue_.front();
  queue_.pop_front();
  Entry& entry = entries_[chunk];
  ++(entry.state == State::kMoving ? counts_.moved : counts_.stored);
  entry.state = State::kWritten;
  entry.segment = first_segment_ + static_cast<int64_t>(segments_.size()) - 1;
  segments_.back().push_back(chunk);
  if (!queue_.empty()) write_end_ += WriteSeconds();
}

// Removes the oldest segment while the chunk at the front of the queue is being written.
void SimulatedDisk::ReclaimOldest() {
  std::vector<Chunk> used;
  for (const Chunk chunk : segments_.front()) {
    const auto it = entries_.find(chunk);
    if (it == entries_.end() || it->second.state != State::kWritten) continue;
    if (it->second.segment != first_segment_) continue;
    if (it->second.is_used) {
      used.push_back(chunk);
    } else {
      ++counts_.reclaimed;
      entries_.erase(it);
    }
  }
  segments_.pop_front();
  ++first_segment_;
  std::ranges::sort(used, std::greater<>(),
                    [this](Chunk chunk) { return entries_[chunk].last_use; });
  const size_t num_moves_max = chunks_per_segment_ / 2;
  for (size_t i = 0; i < used.size(); ++i) {
    if (i < num_moves_max && has_room_in_queue()) {
      Entry& entry = entries_[used[i]];
      entry.state = State::kMoving;
      entry.is_used = false;
      queue_.push_back(used[i]);
    } else {
      ++counts_.reclaimed;
      entries_.erase(used[i]);
    }
  }
}

}  // namespace incipit
