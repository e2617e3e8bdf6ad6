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
// A waiting request gains one level of priority in each interval `aging`. Two waiting requests gain
// levels at the same speed, so the comparison needs no clock: a request with priority p is treated
// as if it had arrived p x `aging` earlier.
struct OrderKey {
  int32_t level = 0;   // if priorities do not rise (`aging` is 0): -priority; otherwise 0
  Time time{};         // time of arrival, minus the priority times `aging`
  uint64_t order = 0;  // number of requests that were added before this request

  friend auto operator<=>(const OrderKey&, const OrderKey&) = default;
};

// Returns the key of `request`. `order` requests were added before. `aging` is the time in which a
// waiting request gains one level of priority; 0: priorities do not rise. REQUIRES: the absolute
// value of the priority, times `aging`, is less than a century.
inline OrderKey MakeOrderKey(const Request& request, uint64_t order, Duration aging) {
  if (aging == Duration{}) return {-request.priority, request.arrival, order};
  return {0, request.arrival - request.priority * aging, order};
}

// The values by which a scheduling policy compares two requests.
struct Standing {
  int32_t tenant = 0;    // index in TenantShares
  int32_t priority = 0;  // requests with a higher priority are admitted earlier, preempted later
  OrderKey key;
  Time first_token_by = kNoDeadline;  // see Request::first_token_by
};

}  // namespace incipit
