#include "scheduler/tenant_shares.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"

namespace incipit {
namespace {

// Index of the counter that is shared by all tenants without a counter of their own.
constexpr int32_t kSharedIndex = kTenantsMax;

}  // namespace

TenantShares::TenantShares(const ShareOptions& options) : options_(options) {
  for (const auto& entry : options_.weights) INCIPIT_CHECK(entry.second > 0);
  INCIPIT_CHECK(options_.reported.size() <= kReportedTenantsMax);
  index_of_.reserve(kTenantsMax);
}

int32_t TenantShares::Enter(uint64_t id) {
  const int32_t index = FindIndex(id);
  Tenant& tenant = At(index);
  if (tenant.num_waiting == 0) tenant.service = std::max(tenant.service, StartOfWaiting());
  if (tenant.num_requests == 0) {
    ++num_active_;
    active_weight_ += tenant.weight;
  }
  ++tenant.num_requests;
  return index;
}

void TenantShares::Leave(int32_t index) {
  Tenant& tenant = At(index);
  INCIPIT_CHECK(tenant.num_requests > 0);
  if (--tenant.num_requests > 0) return;
  --num_active_;
  active_weight_ = num_active_ == 0 ? 0 : active_weight_ - tenant.weight;
}

void TenantShares::CountWaiting(int32_t index, int32_t change) {
  Tenant& tenant = At(index);
  tenant.num_waiting += change;
  INCIPIT_CHECK(tenant.num_waiting >= 0);
  if (tenant.num_waiting == 0) last_index_ = index;
}

// Returns the index of tenant `id`. A new tenant gets an unused index. If kTenantsMax indices are
// used, a new tenant gets the index of a tenant without requests. If all tenants have requests, the
// new tenant gets kSharedIndex, an index that several tenants share.
int32_t TenantShares::FindIndex(uint64_t id) {
  if (const auto it = index_of_.find(id); it != index_of_.end()) return it->second;
  int32_t index = num_indices();
  if (index >= kTenantsMax) {
    index = FindIdle();
    if (index == kSharedIndex && num_indices() > kTenantsMax) return index;
  }
  if (index < num_indices()) {
    index_of_.erase(At(index).id);
  } else {
    tenants_.emplace_back();
  }
  if (index == kSharedIndex) return index;
  index_of_[id] = index;
  const auto weight = options_.weights.find(id);
  if (index == last_index_) {
    last_service_ = At(index).service;
    last_index_ = -1;
  }
  At(index) = {.id = id, .weight = weight == options_.weights.end() ? 1 : weight->second};
  const auto reported = std::ranges::find(options_.reported, id);
  if (reported != options_.reported.end()) {
    At(index).reported_index = static_cast<size_t>(reported - options_.reported.begin());
  }
  return index;
}

int32_t TenantShares::FindIdle() const {
  for (int32_t index = 0; index < kTenantsMax; ++index) {
    if (At(index).num_requests == 0) return index;
  }
  return kSharedIndex;
}

ServiceTotals TenantShares::TakeServices() {
  ServiceTotals taken{};
  for (size_t i = 0; i < taken.size(); ++i) {
    if (untaken_[i] > 0) taken[i] = std::exchange(untaken_[i], 0);
  }
  return taken;
}

// Returns the smallest counter of all tenants with waiting sequences. If no sequence waits, returns
// the counter of the tenant whose last waiting sequence ceased to wait most recently.
double TenantShares::StartOfWaiting() const {
  double smallest = std::numeric_limits<double>::infinity();
  for (const Tenant& tenant : tenants_) {
    if (tenant.num_waiting > 0) smallest = std::min(smallest, tenant.service);
  }
  if (smallest < std::numeric_limits<double>::infinity()) return smallest;
  return last_index_ < 0 ? last_service_ : At(last_index_).service;
}

}  // namespace incipit
