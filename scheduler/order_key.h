// The order in which the requests of one tenant are admitted.
#pragma once

#include <compare>
#include <cstdint>

#include "base/clock.h"
#include "scheduler/request.h"

namespace incipit {

// Orders the requests of one tenant. The request with the smallest key is admitted first. The key
// of a request never changes, although the priority of a waiting request rises with time.
//
// A waiting request gains one level of priority in each interval `aging`. All waiting requests gain
// levels at the same speed, so their order stays the same. A request with priority p is treated as
// if it had arrived p * `aging` earlier.
struct OrderKey {
  int32_t level = 0;   // -priority if `aging` is 0 (priorities do not rise); otherwise 0
  Time time{};         // time of arrival, minus the priority times `aging`
  uint64_t order = 0;  // number of requests that were added before this request

  friend auto operator<=>(const OrderKey&, const OrderKey&) = default;
};

// Returns the key of `request`. `order` is the number of requests that were added earlier. A
// waiting request gains one level of priority in each interval `aging`. If `aging` is 0, priorities
// do not rise. REQUIRES: |priority| * `aging` is less than a century.
inline OrderKey MakeOrderKey(const Request& request, uint64_t order, Duration aging) {
  if (aging == Duration{}) return {-request.priority, request.arrival, order};
  return {0, request.arrival - request.priority * aging, order};
}

// The values by which a scheduling policy compares two requests.
struct Standing {
  int32_t tenant = 0;    // index in TenantShares
  int32_t priority = 0;  // a request with a higher priority is admitted earlier and preempted later
  OrderKey key;
  Time first_token_by = kNoDeadline;  // see Request::first_token_by
};

}  // namespace incipit
