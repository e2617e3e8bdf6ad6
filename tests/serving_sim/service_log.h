// The service that tenants receive over time, and the fairness between tenants.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace incipit::serving_sim {

// The service of a tenant is the sum of the prices of its tokens. The prices of a prompt token, an
// output token and a cached token are the defaults of ShareOptions.
inline constexpr double kPromptTokenWeight = 1, kOutputTokenWeight = 2, kCachedTokenWeight = 0.1;

// The largest difference of service between two tenants, over all intervals of a fixed length in
// which both tenants always had a waiting request.
struct ServiceDifference {
  // True if two tenants had waiting requests during a whole interval. If false, all other fields
  // are 0.
  bool has_window = false;
  // Largest difference divided by the service of the tenant with more service.
  double share = 0;
  // Largest difference divided by the service of the largest request.
  double requests = 0;
  // Largest value of (difference - 10 % of the larger service), divided by the service of the
  // largest request. The goal of the scheduler is at most 1.
  double excess_requests = 0;
};

// Collects the service of each tenant in time slots of one second.
class ServiceLog {
 public:
  // Adds `service` (price of tokens) of `tenant` at time `now` in seconds.
  void AddService(uint64_t tenant, double now, double service);
  // Sets the number of requests of `tenant` that wait from time `now` on. `now` does not decrease.
  void SetWaiting(uint64_t tenant, double now, int32_t num_waiting);
  // Records that a request has received `service` (price of its tokens) in total.
  void AddRequest(double service) {
    request_max_ = request_max_ > service ? request_max_ : service;
  }

  // Compares all pairs of tenants in all intervals of `window_s` seconds before time `end`.
  ServiceDifference LargestDifference(int32_t window_s, double end) const;

 private:
  struct Tenant {
    // Received service, for each time slot.
    std::vector<double> service;
    // True: at some time in the slot, no request of the tenant waited. One value for each time
    // slot.
    std::vector<bool> is_idle;
    int32_t num_waiting = 0;
    // Number of time slots at the begin of `is_idle` whose values are final.
    size_t num_marked = 0;
  };
  static void MarkIdle(Tenant& tenant, double now);
  Tenant Finished(Tenant tenant, double end) const;

  std::map<uint64_t, Tenant> tenants_;
  double request_max_ = 0;
};

}  // namespace incipit::serving_sim
