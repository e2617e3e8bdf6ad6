// Counts how much service each tenant has received.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace incipit {

// Maximum number of tenants that have their own counter of service. All other tenants share one
// counter.
inline constexpr int32_t kTenantsMax = 1024;

// Maximum number of tenants with figures of their own.
inline constexpr size_t kReportedTenantsMax = 20;
// A figure of each tenant in ShareOptions::reported, in the same order. The last element is the
// figure of all other tenants together.
template <typename T>
using PerTenant = std::array<T, kReportedTenantsMax + 1>;
// The service of each tenant: the sum of the prices of its tokens, divided by the weight of the
// tenant.
using ServiceTotals = PerTenant<double>;

// The price of each kind of token, and the weight of each tenant.
struct ShareOptions {
  // Prices of a prompt token that a step computes, of an output token, and of a prompt token that
  // is found in the cache. Prices have no unit: only their ratios matter.
  double prompt_price = 1;
  double output_price = 2;
  double cached_price = 0.1;
  // Weight of each tenant, by Request::tenant. The default weight is 1. A tenant with weight 2 gets
  // twice the service of a tenant with weight 1. REQUIRES: weights are above 0.
  absl::flat_hash_map<uint64_t, double> weights{};
  // Ids (Request::tenant) of the tenants with separate elements in PerTenant. REQUIRES:
  // at most kReportedTenantsMax ids.
  std::vector<uint64_t> reported{};
};

// Virtual token counters: for each tenant, the price of all tokens that the tenant received,
// divided by the weight of the tenant. The policy `fair` serves the tenant with the smallest
// counter first (Sheng et al., "Fairness in Serving Large Language Models", OSDI 2024).
//
// A tenant is active while the scheduler has requests of the tenant. If a request arrives while no
// sequence of its tenant waits, the tenant gets at least the smallest counter of all tenants with
// waiting sequences. So a tenant gains no credit while nothing of it waits, even if some of its
// sequences run. A preempted sequence does not raise the counter: its tenant keeps the refund of
// the prompt tokens that were not computed. Enter may allocate memory; all other functions do not.
class TenantShares {
 public:
  explicit TenantShares(const ShareOptions& options);

  // Registers a request of tenant `id` (Request::tenant), before its first sequence waits. May
  // raise the counter of the tenant. Returns the index of the tenant, which is valid until Leave
  // was called for each of the tenant's requests.
  int32_t Enter(uint64_t id);
  // Removes a request of the tenant `index`.
  void Leave(int32_t index);

  // Adds the price of the tokens, divided by the tenant's weight, to the tenant's counter. A
  // negative number of tokens takes back an earlier charge.
  void ChargePrompt(int32_t index, int64_t num_tokens) {
    Charge(index, options_.prompt_price * static_cast<double>(num_tokens));
  }
  void ChargeCached(int32_t index, int64_t num_tokens) {
    Charge(index, options_.cached_price * static_cast<double>(num_tokens));
  }
  void ChargeOutput(int32_t index, int64_t num_tokens) {
    Charge(index, options_.output_price * static_cast<double>(num_tokens));
  }
  // Returns the number that ChargePrompt, with the same arguments, adds to the tenant's counter.
  double PriceOfPrompt(int32_t index, int64_t num_tokens) const {
    return options_.prompt_price * static_cast<double>(num_tokens) / At(index).weight;
  }
  // Counts a sequence of the tenant that begins (1) or ceases (-1) to wait.
  void CountWaiting(int32_t index, int32_t change);
  // Counts a sequence of the tenant that starts (1) or stops (-1) to hold blocks.
  void CountRunning(int32_t index, int32_t change) { At(index).num_running += change; }

  // Returns the counter of the tenant: the price of its tokens divided by its weight.
  double service(int32_t index) const { return At(index).service; }
  int32_t num_running(int32_t index) const { return At(index).num_running; }
  // Returns the tenant's share of `num_slots` running sequences, which may be a fraction. The share
  // is `num_slots` * (weight of the tenant) / (sum of the weights of all active tenants).
  double SlotsOf(int32_t index, int32_t num_slots) const {
    return At(index).weight / active_weight_ * num_slots;
  }
  int32_t num_active() const { return num_active_; }
  // Returns the number of tenant indices in use. Enter returns indices in [0, num_indices()).
  int32_t num_indices() const { return static_cast<int32_t>(tenants_.size()); }
  uint64_t id(int32_t index) const { return At(index).id; }
  // Returns the index of the tenant in PerTenant.
  size_t reported_index(int32_t index) const { return At(index).reported_index; }

  // Returns the service that tenants received since the previous call of TakeServices: the price of
  // their tokens divided by their weight. Does not contain the amounts by which Enter raises
  // counters. No element is negative. If refunds exceed the charges, later results are smaller by
  // the difference.
  ServiceTotals TakeServices();

 private:
  struct Tenant {
    uint64_t id = 0;
    double weight = 1;
    double service = 0;
    int64_t num_requests = 0;
    int32_t num_running = 0;
    int32_t num_waiting = 0;
    size_t reported_index = kReportedTenantsMax;  // index in PerTenant
  };

  Tenant& At(int32_t index) { return tenants_[static_cast<size_t>(index)]; }
  const Tenant& At(int32_t index) const { return tenants_[static_cast<size_t>(index)]; }
  void Charge(int32_t index, double price) {
    Tenant& tenant = At(index);
    const double service = price / tenant.weight;
    tenant.service += service;
    untaken_[tenant.reported_index] += service;
  }
  int32_t FindIndex(uint64_t id);
  int32_t FindIdle() const;
  double StartOfWaiting() const;

  ShareOptions options_;
  std::vector<Tenant> tenants_;
  // Index of each tenant that has a counter of its own, by tenant id.
  absl::flat_hash_map<uint64_t, int32_t> index_of_;
  double active_weight_ = 0;
  int32_t num_active_ = 0;
  // Index of the latest tenant of which the last waiting sequence ceased to wait; -1: none, or the
  // index has a new tenant. `last_service_` is the counter that the former tenant of the index had.
  int32_t last_index_ = -1;
  double last_service_ = 0;
  // Service that TakeServices has not returned yet. Negative if refunds exceed the charges.
  ServiceTotals untaken_{};
};

}  // namespace incipit
