#include "kvcache/evicted_keys.h"

#include <algorithm>

namespace incipit {
namespace {

// A quarter of the pool: of what was evicted longer ago few choices would have kept much.
int32_t NumRemembered(int32_t num_blocks) { return std::max(16, num_blocks / 4); }

// Of the numbers: a difference over this means that the first one is the older.
constexpr uint32_t kHalfway = 1u << 31;

}  // namespace

// Twice as many entries as are remembered: a set of eight holds four on average and overflows in
// 2 % of cases.
EvictedKeys::EvictedKeys(int32_t num_blocks)
    : num_remembered_(NumRemembered(num_blocks)),
      sets_(static_cast<size_t>(num_remembered_) * 2 / kWays + 1),
      per_time_(static_cast<uint32_t>(num_remembered_) / (kNumTimes - 1) + 1) {}

void EvictedKeys::Add(uint64_t prefix, uint32_t time) {
  if (++num_evicted_ == 0) ++num_evicted_;
  times_[num_evicted_ / per_time_ % kNumTimes] = time;
  const auto tag = static_cast<uint32_t>(prefix);
  Set& set = sets_[SetOf(prefix)];
  Entry* oldest = &set.entries.front();
  for (Entry& entry : set.entries) {
    const bool is_free = !IsRecent(entry) || entry.tag == tag;
    if (is_free || entry.number - oldest->number > kHalfway) oldest = &entry;
    if (is_free) break;
  }
  *oldest = {.tag = tag, .number = num_evicted_};
}

std::optional<uint32_t> EvictedKeys::Find(uint64_t prefix) const {
  const auto tag = static_cast<uint32_t>(prefix);
  for (const Entry& entry : sets_[SetOf(prefix)].entries) {
    if (entry.tag == tag && IsRecent(entry)) return times_[entry.number / per_time_ % kNumTimes];
  }
  return std::nullopt;
}

bool EvictedKeys::Take(uint64_t prefix) {
  const auto tag = static_cast<uint32_t>(prefix);
  for (Entry& entry : sets_[SetOf(prefix)].entries) {
    if (entry.tag != tag || !IsRecent(entry)) continue;
    entry = {};
    return true;
  }
  return false;
}

}  // namespace incipit
