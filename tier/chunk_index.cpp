#include "tier/chunk_index.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <new>
#include <tuple>
#include <type_traits>
#include <utility>

#include "base/check.h"

namespace incipit {
namespace {

template <typename T>
T* AllocateZeroed(size_t count) {
  static_assert(std::is_trivially_destructible_v<T>);
  void* const memory = std::calloc(count, sizeof(T));
  INCIPIT_CHECK(memory != nullptr);
  return static_cast<T*>(memory);
}

}  // namespace

ChunkIndex::ChunkIndex(uint32_t capacity, uint32_t num_segments) : capacity_(capacity) {
  INCIPIT_CHECK(capacity > 0 && capacity < std::numeric_limits<uint32_t>::max() / 2);
  num_buckets_ = std::max<size_t>(2, std::bit_ceil(capacity));
  bucket_shift_ = 64 - static_cast<uint32_t>(std::countr_zero(num_buckets_));
  entries_.reset(AllocateZeroed<Entry>(size_t{capacity} + 1));
  by_key_.reset(AllocateZeroed<uint32_t>(num_buckets_));
  by_parent_.reset(AllocateZeroed<uint32_t>(num_buckets_));
  segments_.reserve(num_segments);
}

size_t ChunkIndex::num_bytes() const {
  return sizeof(*this) + (size_t{capacity_} + 1) * sizeof(Entry) +
         2 * num_buckets_ * sizeof(uint32_t) + segments_.capacity() * sizeof(SegmentList);
}

uint32_t ChunkIndex::FindEntry(const BlockHash& key) const {
  uint32_t id = *BucketOf(key.prefix(), by_key_);
  while (id != kNone && entries_[id].chunk.key != key) id = entries_[id].next_of_key;
  return id;
}

const IndexedChunk* ChunkIndex::Find(const BlockHash& key) const {
  const uint32_t id = FindEntry(key);
  return id == kNone ? nullptr : &entries_[id].chunk;
}

ChunkIndex::SegmentList& ChunkIndex::ListOf(uint32_t segment) {
  const auto found = std::ranges::lower_bound(segments_, segment, {}, &SegmentList::segment);
  if (found != segments_.end() && found->segment == segment) return *found;
  return *segments_.insert(found, {.segment = segment, .first = kNone});
}

void ChunkIndex::Link(uint32_t id, ChunkLocation at) {
  Entry& entry = entries_[id];
  SegmentList& list = ListOf(at.segment);
  entry.chunk.at = at;
  newest_segment_ = std::max(newest_segment_, at.segment);
  entry.previous_in_segment = kNone;
  entry.next_in_segment = list.first;
  if (list.first != kNone) entries_[list.first].previous_in_segment = id;
  list.first = id;
}

void ChunkIndex::Unlink(uint32_t id) {
  const Entry& entry = entries_[id];
  SegmentList& list = ListOf(entry.chunk.at.segment);
  list.median_min = 0;
  if (entry.previous_in_segment != kNone) {
    entries_[entry.previous_in_segment].next_in_segment = entry.next_in_segment;
  } else {
    list.first = entry.next_in_segment;
  }
  if (entry.next_in_segment != kNone) {
    entries_[entry.next_in_segment].previous_in_segment = entry.previous_in_segment;
  }
}

bool ChunkIndex::Insert(const IndexedChunk& chunk, uint64_t tenant) {
  uint32_t id = FindEntry(chunk.key);
  if (id != kNone) {
    Unlink(id);
    entries_[id].chunk.expires_s = chunk.expires_s;
    entries_[id].chunk.priority = chunk.priority;
    tenants_.Remove(entries_[id].chunk.tenant_counter);
    entries_[id].chunk.tenant_counter = tenants_.Add(tenant);
    Link(id, chunk.at);
    entries_[id].last_use = newest_segment_;
    return true;
  }
  if (size_ == capacity_) return false;
  if (free_ != kNone) {
    id = free_;
    free_ = entries_[id].next_of_key;
  } else {
    id = ++num_created_;
  }
  Entry& entry = *new (&entries_[id]) Entry{.chunk = chunk};
  entry.chunk.tenant_counter = tenants_.Add(tenant);
  uint32_t& of_key = *BucketOf(chunk.key.prefix(), by_key_);
  uint32_t& of_parent = *BucketOf(chunk.parent, by_parent_);
  entry.next_of_key = std::exchange(of_key, id);
  entry.next_of_parent = std::exchange(of_parent, id);
  Link(id, chunk.at);
  entry.last_use = newest_segment_;
  ++size_;
  return true;
}

void ChunkIndex::Remove(uint32_t id) {
  Unlink(id);
  Entry& entry = entries_[id];
  uint32_t* link = BucketOf(entry.chunk.key.prefix(), by_key_);
  while (*link != id) link = &entries_[*link].next_of_key;
  *link = entry.next_of_key;
  link = BucketOf(entry.chunk.parent, by_parent_);
  while (*link != id) link = &entries_[*link].next_of_parent;
  *link = entry.next_of_parent;
  tenants_.Remove(entry.chunk.tenant_counter);
  entry.chunk.expires_s = 0;  // NextExpired skips the entry
  entry.next_of_key = std::exchange(free_, id);
  --size_;
}

bool ChunkIndex::Move(const BlockHash& key, ChunkLocation from, ChunkLocation to) {
  const uint32_t id = FindEntry(key);
  if (id == kNone || entries_[id].chunk.at != from) return false;
  Unlink(id);
  Link(id, to);
  if (from.segment == kNoSegment) entries_[id].last_use = newest_segment_;
  return true;
}

bool ChunkIndex::Erase(const BlockHash& key, ChunkLocation at) {
  const uint32_t id = FindEntry(key);
  if (id == kNone || entries_[id].chunk.at != at) return false;
  Remove(id);
  return true;
}

bool ChunkIndex::Has(const BlockHash& key, ChunkLocation at) const {
  const uint32_t id = FindEntry(key);
  return id != kNone && entries_[id].chunk.at == at;
}

void ChunkIndex::EndHighPriority(const BlockHash& key) {
  const uint32_t id = FindEntry(key);
  if (id == kNone) return;
  uint8_t& priority = entries_[id].chunk.priority;
  priority = std::min<uint8_t>(priority, kRetentionPriorityDefault);
}

void ChunkIndex::Touch(const BlockHash& key, uint8_t priority) {
  const uint32_t id = FindEntry(key);
  if (id == kNone) return;
  Entry& entry = entries_[id];
  entry.last_use = newest_segment_;
  entry.chunk.priority = std::max(entry.chunk.priority, priority);
}

void ChunkIndex::AddHit(const BlockHash& key) {
  const uint32_t id = FindEntry(key);
  if (id == kNone) return;
  Entry& entry = entries_[id];
  entry.last_use = newest_segment_;
  if (entry.hits != std::numeric_limits<uint32_t>::max()) ++entry.hits;
}

std::vector<ChunkUses> ChunkIndex::ListUses(size_t num_max) const {
  std::vector<uint32_t> ids;
  for (const SegmentList& list : segments_) {
    if (list.segment == kNoSegment) continue;  // chunks that are not written yet
    for (uint32_t id = list.first; id != kNone; id = entries_[id].next_in_segment) {
      const Entry& entry = entries_[id];
      if (entry.last_use != list.segment || entry.hits != 0) ids.push_back(id);
    }
  }
  std::ranges::stable_sort(ids, {}, [&](uint32_t id) { return entries_[id].last_use; });
  const size_t num_dropped = ids.size() - std::min(ids.size(), num_max);
  std::vector<ChunkUses> uses;
  uses.reserve(ids.size() - num_dropped);
  for (const uint32_t id : std::span(ids).subspan(num_dropped)) {
    const Entry& entry = entries_[id];
    uses.push_back(
        {.key = entry.chunk.key.prefix(), .hits = entry.hits, .last_use = entry.last_use});
  }
  return uses;
}

void ChunkIndex::RestoreUses(std::span<const ChunkUses> uses) {
  for (const ChunkUses& chunk : uses) {
    for (uint32_t id = *BucketOf(chunk.key, by_key_); id != kNone; id = entries_[id].next_of_key) {
      if (entries_[id].chunk.key.prefix() != chunk.key) continue;
      entries_[id].hits = chunk.hits;
      entries_[id].last_use = std::min(chunk.last_use, newest_segment_);
    }
  }
}

size_t ChunkIndex::EraseSegment(uint32_t segment) {
  size_t num_removed = 0;
  for (uint32_t id = ListOf(segment).first; id != kNone; ++num_removed) {
    const uint32_t next = entries_[id].next_in_segment;
    Remove(id);
    id = next;
  }
  std::erase_if(segments_, [&](const SegmentList& list) { return list.segment == segment; });
  return num_removed;
}

// Returns the last use of the record in the middle, if the records are sorted by their last use.
// With an even number of records, returns the older of the two records in the middle.
uint32_t ChunkIndex::MedianOf(const SegmentList& list, size_t num_records,
                              std::vector<uint32_t>& scratch) const {
  scratch.clear();
  for (uint32_t id = list.first; id != kNone; id = entries_[id].next_in_segment) {
    scratch.push_back(entries_[id].last_use);
  }
  const size_t middle = num_records / 2;
  if (scratch.size() <= middle) return 0;
  const auto median = scratch.begin() + static_cast<ptrdiff_t>(middle);
  std::ranges::nth_element(scratch, median, std::ranges::greater());
  return *median;
}

void ChunkIndex::ComputeMedians(size_t num_records) {
  std::vector<uint32_t> scratch;
  scratch.reserve(num_records);
  for (SegmentList& list : segments_) list.median_min = MedianOf(list, num_records, scratch);
}

SegmentUse ChunkIndex::FindLeastUsed(std::span<const uint32_t> segments, size_t num_records,
                                     std::vector<uint32_t>& scratch) {
  for (const uint32_t segment : segments) ListOf(segment);  // the index may have no chunk of it
  SegmentUse found;
  for (int i = 0; i < kMediansMax; ++i) {
    SegmentList* least = nullptr;
    size_t next = 0;
    for (SegmentList& list : segments_) {
      while (next < segments.size() && segments[next] < list.segment) ++next;
      if (next == segments.size()) break;
      if (segments[next] != list.segment) continue;
      if (least == nullptr || list.median_min < least->median_min) least = &list;
    }
    INCIPIT_CHECK(least != nullptr);
    const uint32_t median = MedianOf(*least, num_records, scratch);
    if (found.segment == kNoSegment ||
        std::pair(median, least->segment) < std::pair(found.median, found.segment)) {
      found = {least->segment, median};
    }
    // No other median is below the bound of `least`.
    if (median == std::exchange(least->median_min, median)) break;
  }
  scratch.clear();
  return found;
}

void ChunkIndex::ListKept(const SegmentUse& segment, size_t num_max, int64_t now_s,
                          std::vector<uint32_t>& indexes) const {
  const auto list = std::ranges::find(segments_, segment.segment, &SegmentList::segment);
  if (list == segments_.end()) return;
  const double age_max = kKeptAgeMax * AgeOf(segment.median);
  const size_t begin = indexes.size();
  // First collect the ids of the entries. After the sort, replace the ids by record indexes.
  for (uint32_t id = list->first; id != kNone; id = entries_[id].next_in_segment) {
    const Entry& entry = entries_[id];
    const bool has_expired = entry.chunk.expires_s != 0 && entry.chunk.expires_s <= now_s;
    const bool is_kept =
        AgeOf(entry.last_use) < age_max || entry.chunk.priority > kRetentionPriorityDefault;
    if (is_kept && !has_expired) indexes.push_back(id);
  }
  const auto collected = std::span(indexes).subspan(begin);
  const size_t count = std::min(num_max, collected.size());
  const auto rank_of = [&](uint32_t id) {
    const Entry& entry = entries_[id];
    return std::tuple(entry.chunk.priority, entry.last_use, ~entry.chunk.at.index);
  };
  std::ranges::partial_sort(collected, collected.begin() + static_cast<ptrdiff_t>(count),
                            std::ranges::greater(), rank_of);
  indexes.resize(begin + count);
  for (uint32_t& index : std::span(indexes).subspan(begin)) index = entries_[index].chunk.at.index;
}

const IndexedChunk* ChunkIndex::NextExpired(int64_t now_s, uint32_t num_visits) {
  for (uint32_t i = 0; i < std::min(num_visits, num_created_); ++i) {
    if (next_visited_ > num_created_) next_visited_ = 1;
    const IndexedChunk& chunk = entries_[next_visited_++].chunk;
    const bool has_expired = chunk.expires_s != 0 && chunk.expires_s <= now_s;
    if (has_expired && chunk.at.segment != kNoSegment) return &chunk;
  }
  return nullptr;
}

bool ChunkIndex::HasPrefix(uint64_t prefix) const {
  uint32_t id = *BucketOf(prefix, by_key_);
  while (id != kNone && entries_[id].chunk.key.prefix() != prefix) id = entries_[id].next_of_key;
  return id != kNone;
}

void ChunkIndex::ListOrphans(std::vector<uint32_t>& ids) const {
  for (const SegmentList& list : segments_) {
    for (uint32_t id = list.first; id != kNone; id = entries_[id].next_in_segment) {
      const IndexedChunk& chunk = entries_[id].chunk;
      if (!chunk.is_first && !HasPrefix(chunk.parent)) ids.push_back(id);
    }
  }
}

void ChunkIndex::RemoveTree(const BlockHash& key,
                            absl::FunctionRef<void(const IndexedChunk&)> removed) {
  std::vector<uint32_t> pending;
  const auto add_children = [&](uint64_t prefix) {
    for (uint32_t id = *BucketOf(prefix, by_parent_); id != kNone;) {
      const uint32_t next = entries_[id].next_of_parent;
      if (entries_[id].chunk.parent == prefix) pending.push_back(id);
      id = next;
    }
  };
  const uint32_t root = FindEntry(key);
  if (root != kNone) pending.push_back(root);
  if (root == kNone) add_children(key.prefix());
  const auto remove_pending = [&] {
    while (!pending.empty()) {
      const uint32_t id = pending.back();
      pending.pop_back();
      const IndexedChunk chunk = entries_[id].chunk;
      Remove(id);
      removed(chunk);
      add_children(chunk.key.prefix());
    }
  };
  remove_pending();
  ListOrphans(pending);
  remove_pending();
}

void ChunkIndex::Clear() {
  for (const SegmentList& list : segments_) {
    for (uint32_t id = list.first; id != kNone;) {
      const uint32_t next = entries_[id].next_in_segment;
      Remove(id);
      id = next;
    }
  }
  segments_.clear();
}

}  // namespace incipit
