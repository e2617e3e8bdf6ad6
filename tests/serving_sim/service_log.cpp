#include "tests/serving_sim/service_log.h"

#include <algorithm>
#include <utility>

namespace incipit::serving_sim {

void ServiceLog::AddService(uint64_t tenant, double now, double service) {
  Tenant& to = tenants_[tenant];
  const auto slot = static_cast<size_t>(now);
  if (to.service.size() <= slot) to.service.resize(slot + 1);
  to.service[slot] += service;
}

// Marks the time slots up to `now` (inclusive) as idle if no request of `tenant` waits.
void ServiceLog::MarkIdle(Tenant& tenant, double now) {
  const auto slot = static_cast<size_t>(now);
  if (tenant.is_idle.size() <= slot) tenant.is_idle.resize(slot + 1);
  if (tenant.num_waiting == 0) {
    for (size_t i = tenant.num_marked; i <= slot; ++i) tenant.is_idle[i] = true;
  }
  tenant.num_marked = slot;
}

void ServiceLog::SetWaiting(uint64_t tenant, double now, int32_t num_waiting) {
  Tenant& changed = tenants_[tenant];
  MarkIdle(changed, now);
  changed.num_waiting = num_waiting;
  MarkIdle(changed, now);
}

// Returns a copy of `tenant` with all time slots up to `end`. In the copy, element i of `service`
// is the total service before time slot i.
ServiceLog::Tenant ServiceLog::Finished(Tenant tenant, double end) const {
  MarkIdle(tenant, end);
  tenant.service.resize(static_cast<size_t>(end) + 1);
  double sum = 0;
  for (double& service : tenant.service) sum += std::exchange(service, sum);
  return tenant;
}

ServiceDifference ServiceLog::LargestDifference(int32_t window_s, double end) const {
  const auto window = static_cast<size_t>(window_s);
  std::vector<Tenant> tenants;
  for (const auto& [id, tenant] : tenants_) tenants.push_back(Finished(tenant, end));
  ServiceDifference largest;
  // Service of each tenant that has waiting requests during the whole interval.
  std::vector<double> backlogged;
  const auto num_slots = static_cast<size_t>(end) + 1;
  // For each tenant: the index of the last idle time slot, plus 1.
  std::vector<size_t> last_idle(tenants.size(), 0);
  for (size_t slot = 0; slot + 1 < num_slots; ++slot) {
    backlogged.clear();
    for (size_t i = 0; i < tenants.size(); ++i) {
      if (tenants[i].is_idle[slot]) last_idle[i] = slot + 1;
      if (slot + 1 < last_idle[i] + window) continue;
      const std::vector<double>& sums = tenants[i].service;
      backlogged.push_back(sums[slot + 1] - sums[slot + 1 - window]);
    }
    if (backlogged.size() < 2) continue;
    const auto [least, most] = std::ranges::minmax(backlogged);
    const double difference = most - least;
    largest.has_window = true;
    if (most > 0) largest.share = std::max(largest.share, difference / most);
    if (request_max_ == 0) continue;
    largest.requests = std::max(largest.requests, difference / request_max_);
    largest.excess_requests =
        std::max(largest.excess_requests, (difference - 0.1 * most) / request_max_);
  }
  return largest;
}

}  // namespace incipit::serving_sim
