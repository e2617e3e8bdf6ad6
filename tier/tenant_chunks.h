// TenantChunks: the number of chunks of each tenant in the disk tier.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace incipit {

// Counts the chunks of at most kTenantsMax tenants separately. If more tenants have chunks, the
// other tenants share one counter. A counter that is 0 again is free for another tenant. No
// function allocates memory.
class TenantChunks {
 public:
  static constexpr uint16_t kTenantsMax = 1023;

  TenantChunks();

  // Adds a chunk of `tenant`. The caller must pass the result, the number of a counter, to Remove
  // when the chunk leaves the tier.
  uint16_t Add(uint64_t tenant);
  void Remove(uint16_t counter);

  // Returns the number of chunks in the counter to which Add(`tenant`) would add a chunk.
  uint32_t num_of(uint64_t tenant) const;
  // Returns true if Add(`tenant`) would return `counter`. REQUIRES: `counter` has a chunk.
  bool IsCounterOf(uint16_t counter, uint64_t tenant) const;

 private:
  static constexpr uint16_t kShared = 0;  // counter of tenants without a counter of their own
  static constexpr uint16_t kNone = 0;    // link to no counter; no list contains counter kShared
  struct Counter {
    uint64_t tenant = 0;
    uint32_t num_chunks = 0;
    uint16_t next = kNone;  // next counter in the same bucket, or next free counter
  };

  uint16_t& BucketOf(uint64_t tenant) { return buckets_[tenant % buckets_.size()]; }
  uint16_t Find(uint64_t tenant) const;

  std::array<Counter, kTenantsMax + 1> counters_{};
  std::array<uint16_t, 1024> buckets_{};
  uint16_t free_ = kNone;
};

}  // namespace incipit
