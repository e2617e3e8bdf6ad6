#include "kvcache/pool/evicted_keys.h"

#include <algorithm>
#include <bit>

namespace incipit {
namespace {

// Returns the number of evictions to remember: a quarter of the number of blocks, but at least 16.
int32_t NumRemembered(int32_t num_blocks) { return std::max(16, num_blocks / 4); }

}  // namespace

// Allocates two entries for each eviction that must be remembered. With this number of entries,
// only about 2 % of the evictions are overwritten too early.
EvictedKeys::EvictedKeys(int32_t num_blocks)
    : num_remembered_(NumRemembered(num_blocks)),
      sets_(static_cast<size_t>(num_remembered_) * 2 / kWays + 1),
      per_time_log2_(std::bit_width(static_cast<uint32_t>(num_remembered_) / (kNumTimes - 1))) {}

void EvictedKeys::Add(uint64_t prefix, uint32_t time) {
  if (++num_evicted_ == 0) ++num_evicted_;
  times_[TimeSlot(num_evicted_)] = time;
  Set& set = sets_[SetOf(prefix)];
  set.tags[set.next] = static_cast<uint32_t>(prefix);
  set.numbers[set.next] = num_evicted_;
  set.next = set.next + 1 < kWays ? set.next + 1 : 0;
}

size_t EvictedKeys::WayOf(uint64_t prefix) const {
  const Set& set = sets_[SetOf(prefix)];
  const auto tag = static_cast<uint32_t>(prefix);
  bool any = false;
#pragma GCC unroll 8
  for (const uint32_t other : set.tags) any |= other == tag;
  if (!any) return kWays;
  size_t way = 0;
  while (way < kWays && !(set.tags[way] == tag && IsRecent(set.numbers[way]))) ++way;
  return way;
}

std::optional<uint32_t> EvictedKeys::Find(uint64_t prefix) const {
  const size_t way = WayOf(prefix);
  if (way == kWays) return std::nullopt;
  return times_[TimeSlot(sets_[SetOf(prefix)].numbers[way])];
}

bool EvictedKeys::Take(uint64_t prefix) {
  const size_t way = WayOf(prefix);
  if (way == kWays) return false;
  sets_[SetOf(prefix)].numbers[way] = 0;
  return true;
}

}  // namespace incipit
