// Figures of a tier for metrics.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "base/clock.h"
#include "base/enum_names.h"
#include "tier/segments/record.h"

namespace incipit {

// kStarting: the tier searches its files for records. kOn: the tier works. kLocked: another process
// uses the directory. kOff: the tier is turned off because of an error, and is tried again later.
enum class TierState : uint8_t { kStarting, kOn, kLocked, kOff };
inline constexpr EnumName<TierState> kTierStateNames[] = {{TierState::kStarting, "starting"},
                                                          {TierState::kOn, "on"},
                                                          {TierState::kLocked, "locked"},
                                                          {TierState::kOff, "off"}};

// Reasons why a chunk was not stored. kOff: the tier is not on, or was turned off before the write.
// kStagingFull: staging has no free slot for a store. kWriteBudget: the limit of written bytes per
// second is reached. kNotReused: the policy is StorePolicy::kReused, and the store is the first
// store of the chunk. kNotFinite: the chunk has a value that is NaN or infinite. kError: the file
// system returned an error. kRemoved: Remove or Clear was called before the write. kIndexFull: the
// index has no room. kTimeToLive: the time to live of the request is below one second.
// kTenantShare: the chunks of the tenant use DiskTierOptions::tenant_share_max already.
enum class StoreDrop : uint8_t {
  kOff,
  kStagingFull,
  kWriteBudget,
  kNotReused,
  kNotFinite,
  kError,
  kRemoved,
  kIndexFull,
  kTimeToLive,
  kTenantShare,
};
inline constexpr EnumName<StoreDrop> kStoreDropNames[] = {
    {StoreDrop::kOff, "off"},
    {StoreDrop::kStagingFull, "staging_full"},
    {StoreDrop::kWriteBudget, "write_budget"},
    {StoreDrop::kNotReused, "not_reused"},
    {StoreDrop::kNotFinite, "not_finite"},
    {StoreDrop::kError, "error"},
    {StoreDrop::kRemoved, "removed"},
    {StoreDrop::kIndexFull, "index_full"},
    {StoreDrop::kTimeToLive, "time_to_live"},
    {StoreDrop::kTenantShare, "tenant_share"}};
inline constexpr size_t kNumStoreDrops = std::size(kStoreDropNames);

// Counts durations by their size. Bucket i has the durations of [2^(i-1), 2^i) microseconds; bucket
// 0 has the durations below 1 microsecond, and the last bucket has all longer durations too.
struct LatencyCounts {
  std::array<uint64_t, 28> buckets{};
  Duration sum{};

  void Add(Duration duration) {
    sum += duration;
    const auto us = std::chrono::duration_cast<std::chrono::microseconds>(duration).count();
    const auto bucket = static_cast<size_t>(std::bit_width(static_cast<uint64_t>(us < 0 ? 0 : us)));
    ++buckets[bucket < buckets.size() ? bucket : buckets.size() - 1];
  }
};

// Counters since the creation of the tier, and current values.
struct TierStats {
  uint64_t hits = 0;  // loads that became ready
  // Calls of Load for chunks that the tier does not have, or that it has lost before the end of the
  // load.
  uint64_t misses = 0;
  uint64_t loads_without_slot = 0;  // calls of Load while staging was full
  uint64_t loads_late = 0;          // loads that exceeded the deadline
  uint64_t load_errors = 0;         // loads that failed with an error of the file system
  uint64_t loads_cancelled = 0;     // loads that ended after their last ticket was released
  // Loads by the reason why the record was rejected.
  std::array<uint64_t, kNumRejectReasons> rejected{};
  uint64_t bytes_loaded = 0;   // bytes of records that were loaded and verified
  LatencyCounts load_latency;  // time from Load to the end of the load, for hits

  uint64_t chunks_stored = 0;
  uint64_t bytes_stored = 0;  // bytes of records, without moved records
  std::array<uint64_t, kNumStoreDrops> dropped{};
  uint64_t chunks_moved = 0;      // chunks that were moved out of a reclaimed segment
  uint64_t chunks_reclaimed = 0;  // chunks that were lost with a reclaimed segment
  uint64_t chunks_removed = 0;    // chunks that Remove has removed
  uint64_t times_turned_off = 0;  // changes from another state to kOff

  // Current values.
  TierState state = TierState::kStarting;
  uint64_t bytes_used = 0;  // size of all segments in the directory
  uint64_t chunks = 0;
  uint32_t loads_pending = 0, stores_pending = 0;
  uint32_t slots_free = 0;
  uint64_t staging_bytes_used = 0;  // bytes of the slots that loads and stores occupy
};

}  // namespace incipit
