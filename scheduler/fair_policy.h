// Shares the service fairly between tenants.
#pragma once

#include "scheduler/scheduling_policy.h"

namespace incipit {

// Admits requests of the tenant with the least service first. The service of a tenant is the sum of
// the prices of its tokens (ShareOptions), divided by the weight of the tenant. Among the requests
// of one tenant, the priority and then the time of arrival decide.
class FairPolicy final : public SchedulingPolicy {
 public:
  explicit FairPolicy(const TenantShares& shares) : shares_(shares) {}

  bool GoesBefore(const Standing& a, const Standing& b) const override;
  // The prompt of the tenant with the least service is computed first. Within a tenant, the prompt
  // with the highest priority is computed first.
  std::partial_ordering ComparePrompts(const Standing& a, const Standing& b) const override;
  // A sequence of the tenant with the most service is preempted first. Within a tenant, a sequence
  // with the lowest priority is preempted first.
  std::partial_ordering ComparePreemption(const Standing& a, const Standing& b) const override;
  SlotClaim ClaimOf(const Standing& waiting, int32_t num_running) const override;
  // Returns true if the tenant of `waiting` may start a sequence in place of a running sequence of
  // the tenant of `running`. The tenant of `running` must have received more service (price of its
  // tokens, divided by its weight). After the exchange, these limits must hold
  // (TenantShares::SlotsOf):
  // - The tenant of `running` has at least its share of the running sequences, rounded down.
  // - The tenant of `waiting` has at most its share of the running sequences. This share is rounded
  //   up if the services differ by more than kExchangeGap, and otherwise rounded down.
  bool MayDisplace(const Standing& waiting, const Standing& running,
                   int32_t num_running) const override;

 private:
  const TenantShares& shares_;
};

}  // namespace incipit
