// First come, first served.
#pragma once

#include "scheduler/scheduling_policy.h"

namespace incipit {

// Admits the requests of all tenants in the order of their keys (OrderKey): by priority, which
// rises while a request waits, and by arrival.
class FcfsPolicy final : public SchedulingPolicy {
 public:
  bool GoesBefore(const Standing& a, const Standing& b) const override { return a.key < b.key; }
  std::partial_ordering ComparePrompts(const Standing& a, const Standing& b) const override {
    return b.priority <=> a.priority;
  }
  std::partial_ordering ComparePreemption(const Standing& a, const Standing& b) const override {
    return a.priority <=> b.priority;
  }
  SlotClaim ClaimOf(const Standing&, int32_t) const override { return SlotClaim::kNone; }
  bool MayDisplace(const Standing&, const Standing&, int32_t) const override { return false; }
};

}  // namespace incipit
