// Decides which request goes first: among the waiting, among the prompts of a step, and among the
// sequences that may be preempted.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>

#include "scheduler/order_key.h"
#include "scheduler/tenant_shares.h"

namespace incipit {

enum class SchedulingKind : uint8_t { kFcfs, kFair };

// Compares requests of different tenants. A policy holds no request and reads no clock, so the
// scheduler may ask the same question twice and gets the same result until a tenant is charged.
class SchedulingPolicy {
 public:
  virtual ~SchedulingPolicy() = default;

  // Returns true if request `a` is admitted before request `b`. This is a strict weak order.
  virtual bool GoesBefore(const Standing& a, const Standing& b) const = 0;

  // Compares two requests whose prompts share a step. Returns less if `a` gets its tokens first,
  // and equivalent if the shorter prompt goes first. The result is a weak order.
  virtual std::partial_ordering ComparePrompts(const Standing& a, const Standing& b) const = 0;

  // Compares two running requests. Returns less if `a` is preempted before `b`, and equivalent if
  // the policy does not care.
  virtual std::partial_ordering ComparePreemption(const Standing& a, const Standing& b) const = 0;

  // Returns true if a running sequence of `running` may be preempted only to admit `waiting`,
  // although both fit the limits alone. `num_running` is the number of running sequences.
  virtual bool MayDisplace(const Standing& waiting, const Standing& running,
                           int32_t num_running) const = 0;
};

// Creates the policy `kind`. `shares` must outlive the policy.
std::unique_ptr<SchedulingPolicy> MakeSchedulingPolicy(SchedulingKind kind,
                                                       const TenantShares& shares);

}  // namespace incipit
