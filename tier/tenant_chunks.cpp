#include "tier/tenant_chunks.h"

#include "base/check.h"

namespace incipit {

TenantChunks::TenantChunks() {
  for (uint16_t i = kTenantsMax; i > 0; --i) {
    counters_[i].next = free_;
    free_ = i;
  }
}

// Returns the counter of `tenant`, or kNone.
uint16_t TenantChunks::Find(uint64_t tenant) const {
  uint16_t counter = buckets_[tenant % buckets_.size()];
  while (counter != kNone && counters_[counter].tenant != tenant) counter = counters_[counter].next;
  return counter;
}

uint16_t TenantChunks::Add(uint64_t tenant) {
  uint16_t counter = Find(tenant);
  if (counter == kNone && free_ != kNone) {
    counter = free_;
    free_ = counters_[counter].next;
    uint16_t& bucket = BucketOf(tenant);
    counters_[counter] = {.tenant = tenant, .num_chunks = 0, .next = bucket};
    bucket = counter;
  }
  if (counter == kNone) counter = kShared;
  ++counters_[counter].num_chunks;
  return counter;
}

void TenantChunks::Remove(uint16_t counter) {
  INCIPIT_CHECK(counters_[counter].num_chunks > 0);
  if (--counters_[counter].num_chunks > 0 || counter == kShared) return;
  uint16_t* link = &BucketOf(counters_[counter].tenant);
  while (*link != counter) link = &counters_[*link].next;
  *link = counters_[counter].next;
  counters_[counter].next = free_;
  free_ = counter;
}

bool TenantChunks::IsCounterOf(uint16_t counter, uint64_t tenant) const {
  const uint16_t found = Find(tenant);
  return found == counter && (found != kNone || free_ == kNone);
}

uint32_t TenantChunks::num_of(uint64_t tenant) const {
  const uint16_t counter = Find(tenant);
  if (counter == kNone && free_ != kNone) return 0;
  return counters_[counter == kNone ? kShared : counter].num_chunks;
}

}  // namespace incipit
