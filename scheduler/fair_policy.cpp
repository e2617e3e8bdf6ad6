#include "scheduler/fair_policy.h"

#include <cmath>

#include "scheduler/fcfs_policy.h"

namespace incipit {
namespace {

// Shares of slots (running sequences) are fractions, so two tenants may have a claim to the same
// slot. The tenant with less service then takes the slot only if the difference between the
// services is greater than this number. Unit: price of one computed prompt token.
constexpr double kExchangeGap = 4096;

}  // namespace

bool FairPolicy::GoesBefore(const Standing& a, const Standing& b) const {
  const double service_a = shares_.service(a.tenant);
  const double service_b = shares_.service(b.tenant);
  if (a.tenant != b.tenant && service_a != service_b) return service_a < service_b;
  return a.key < b.key;
}

std::partial_ordering FairPolicy::ComparePrompts(const Standing& a, const Standing& b) const {
  const std::partial_ordering order = shares_.service(a.tenant) <=> shares_.service(b.tenant);
  return order != 0 ? order : b.priority <=> a.priority;
}

std::partial_ordering FairPolicy::ComparePreemption(const Standing& a, const Standing& b) const {
  if (a.tenant == b.tenant) return a.priority <=> b.priority;
  return shares_.service(b.tenant) <=> shares_.service(a.tenant);
}

SlotClaim FairPolicy::ClaimOf(const Standing& waiting, int32_t num_running) const {
  const double share = shares_.SlotsOf(waiting.tenant, num_running);
  const int32_t num_gaining = shares_.num_running(waiting.tenant) + 1;
  if (num_gaining <= std::floor(share)) return SlotClaim::kWhole;
  return num_gaining <= std::ceil(share) ? SlotClaim::kPart : SlotClaim::kNone;
}

// A tenant's share of the running sequences (slots) is rarely a whole number. For example, two
// tenants with equal weights have 1.5 of 3 slots each, so either tenant may have the third slot.
// The tenants exchange this slot only if their services (TenantShares::service) differ by more than
// kExchangeGap. Otherwise the tenants would preempt each other in every step.
bool FairPolicy::MayDisplace(const Standing& waiting, const Standing& running,
                             int32_t num_running) const {
  if (waiting.tenant == running.tenant) return false;
  const double gap = shares_.service(running.tenant) - shares_.service(waiting.tenant);
  if (gap <= 0) return false;
  const double share_of_running = shares_.SlotsOf(running.tenant, num_running);
  const int32_t num_losing = shares_.num_running(running.tenant) - 1;
  if (num_losing < std::floor(share_of_running)) return false;
  const SlotClaim claim = ClaimOf(waiting, num_running);
  return claim == SlotClaim::kWhole || (claim == SlotClaim::kPart && gap > kExchangeGap);
}

std::unique_ptr<SchedulingPolicy> MakeSchedulingPolicy(SchedulingKind kind,
                                                       const TenantShares& shares) {
  switch (kind) {
    case SchedulingKind::kFcfs:
      return std::make_unique<FcfsPolicy>();
    case SchedulingKind::kFair:
      return std::make_unique<FairPolicy>(shares);
  }
  __builtin_unreachable();
}

}  // namespace incipit
