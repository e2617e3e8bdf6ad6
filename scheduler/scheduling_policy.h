// Decides the order in which requests are admitted, prompts are computed and sequences are
// preempted.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>

#include "scheduler/order_key.h"
#include "scheduler/tenant_shares.h"

namespace incipit {

enum class SchedulingKind : uint8_t { kFcfs, kFair };

// The claim of a tenant to start one more sequence in place of a running sequence of another
// tenant. kNone: the tenant would exceed its share of the running sequences. kPart: the tenant
// would exceed its share rounded down, but not its share rounded up. kWhole: neither.
enum class SlotClaim : uint8_t { kNone, kPart, kWhole };

// Compares two requests, which may belong to different tenants. A policy stores no request and
// reads no clock. Equal arguments give equal results until the counter of a tenant changes
// (TenantShares).
class SchedulingPolicy {
 public:
  virtual ~SchedulingPolicy() = default;

  // Returns true if request `a` is admitted before request `b`. This is a strict weak order.
  virtual bool GoesBefore(const Standing& a, const Standing& b) const = 0;

  // Compares two requests whose prompts share a step. Returns less if the prompt of `a` must be
  // computed before the prompt of `b`, and equivalent if the policy allows both orders. The result
  // is a weak order.
  virtual std::partial_ordering ComparePrompts(const Standing& a, const Standing& b) const = 0;

  // Compares two running requests. Returns less if `a` is preempted before `b`, and equivalent if
  // the scheduler may preempt either of them first.
  virtual std::partial_ordering ComparePreemption(const Standing& a, const Standing& b) const = 0;

  // Returns the claim of the tenant of `waiting`, if `num_running` sequences run.
  virtual SlotClaim ClaimOf(const Standing& waiting, int32_t num_running) const = 0;

  // Returns true if the scheduler may preempt a sequence of the request `running` so that the
  // request `waiting` can start. `waiting` cannot start because too few blocks are free, or too
  // many sequences run. `num_running` is the number of running sequences.
  virtual bool MayDisplace(const Standing& waiting, const Standing& running,
                           int32_t num_running) const = 0;
};

// Creates the policy `kind`. `shares` must outlive the policy.
std::unique_ptr<SchedulingPolicy> MakeSchedulingPolicy(SchedulingKind kind,
                                                       const TenantShares& shares);

}  // namespace incipit
