// Shares the service fairly between tenants.
#pragma once

#include "scheduler/scheduling_policy.h"

namespace incipit {

// Serves the tenant that has received the least service for its weight (TenantShares). Priority and
// arrival order only the requests of one tenant.
class FairPolicy final : public SchedulingPolicy {
 public:
  explicit FairPolicy(const TenantShares& shares) : shares_(shares) {}

  bool GoesBefore(const Standing& a, const Standing& b) const override;
  // The tenant with the least service goes first. Within a tenant, the highest priority goes first.
  std::partial_ordering ComparePrompts(const Standing& a, const Standing& b) const override;
  // The tenant with the most service is preempted first. Within a tenant, the lowest priority is
  // preempted first.
  std::partial_ordering ComparePreemption(const Standing& a, const Standing& b) const override;
  // Returns true if the tenant of `running` has more service and more running sequences than its
  // share, and the tenant of `waiting` has fewer running sequences than its share.
  bool MayDisplace(const Standing& waiting, const Standing& running,
                   int32_t num_running) const override;

 private:
  const TenantShares& shares_;
};

}  // namespace incipit
