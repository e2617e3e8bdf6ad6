// The order of requests within one tenant: priority and arrival time.
#pragma once

#include <compare>
#include <cstdint>

#include "base/clock.h"
#include "scheduler/request.h"

namespace incipit {

// Orders the requests of one tenant. A smaller key is admitted earlier. The key of a request never
// changes, although the priority of a waiting request rises with time.
//
// A waiting request gains one level of priority in each interval `aging`. Two waiting requests gain
// levels at the same speed, so the comparison needs no clock: a request with priority p is treated
// as if it had arrived p x `aging` earlier.
struct OrderKey {
  int32_t level = 0;   // minus the priority if `aging` is 0 (priorities do not rise); otherwise 0
  Time time{};         // time of arrival, minus the priority times `aging`
  uint64_t order = 0;  // number of requests that were added before this request

  friend auto operator<=>(const OrderKey&, const OrderKey&) = default;
};

// Returns the key of `request`, the request number `order`. `aging` is the time in which a waiting
// request gains one level of priority; 0: never. REQUIRES: |priority| x `aging` is less than a
// century.
inline OrderKey MakeOrderKey(const Request& request, uint64_t order, Duration aging) {
  if (aging == Duration{}) return {-request.priority, request.arrival, order};
  return {0, request.arrival - request.priority * aging, order};
}

// The rank of a request among all requests, for every scheduling policy.
struct Standing {
  int32_t tenant = 0;    // index in TenantShares
  int32_t priority = 0;  // a higher priority is admitted earlier and preempted later
  OrderKey key;
  Time first_token_by = kNoDeadline;  // see Request::first_token_by
};

}  // namespace incipit
