#include "scheduler/tenant_shares.h"

#include <gtest/gtest.h>

namespace incipit {
namespace {

TEST(TenantSharesTest, CountsThePriceOfEachKindOfTokenDividedByTheWeight) {
  TenantShares shares(
      {.prompt_price = 1, .output_price = 2, .cached_price = 0.5, .weights = {{7, 4}}});
  const int32_t light = shares.Enter(1);
  const int32_t heavy = shares.Enter(7);
  for (const int32_t tenant : {light, heavy}) {
    shares.ChargePrompt(tenant, 10);
    shares.ChargeOutput(tenant, 3);
    shares.ChargeCached(tenant, 8);
  }
  EXPECT_DOUBLE_EQ(shares.service(light), 20);
  EXPECT_DOUBLE_EQ(shares.service(heavy), 5);
  shares.ChargePrompt(light, -10);
  EXPECT_DOUBLE_EQ(shares.service(light), 10);
}

// Tenant 3 becomes active later than tenant 7, so the counter of tenant 3 starts at the value of
// tenant 7. TakeServices must not report this start value as service.
TEST(TenantSharesTest, TakesTheServiceOfReportedTenantsAndTheSumOfTheOthers) {
  TenantShares shares({.weights = {{7, 4}}, .reported = {3, 7}});
  const int32_t heavy = shares.Enter(7);
  shares.ChargePrompt(heavy, 40);
  const int32_t reported = shares.Enter(3);
  shares.ChargePrompt(reported, 6);
  shares.ChargePrompt(shares.Enter(1), 2);
  shares.ChargePrompt(shares.Enter(2), 3);
  ServiceTotals expected{6, 10};
  expected.back() = 5;
  EXPECT_EQ(shares.TakeServices(), expected);
  EXPECT_EQ(shares.TakeServices(), ServiceTotals{});
}

TEST(TenantSharesTest, ARefundReducesTheServiceThatIsTakenLater) {
  TenantShares shares({.reported = {3}});
  const int32_t tenant = shares.Enter(3);
  shares.ChargePrompt(tenant, 10);
  EXPECT_EQ(shares.TakeServices()[0], 10);
  shares.ChargePrompt(tenant, -6);
  EXPECT_EQ(shares.TakeServices()[0], 0);
  shares.ChargePrompt(tenant, 8);
  EXPECT_EQ(shares.TakeServices()[0], 2);
}

TEST(TenantSharesTest, AnIdleTenantGainsNoCredit) {
  TenantShares shares(ShareOptions{});
  const int32_t a = shares.Enter(1);
  shares.ChargePrompt(a, 1000);
  const int32_t b = shares.Enter(2);
  EXPECT_DOUBLE_EQ(shares.service(b), 1000);
  shares.ChargePrompt(b, 500);
  shares.Leave(a);
  EXPECT_EQ(shares.Enter(1), a);
  EXPECT_DOUBLE_EQ(shares.service(a), 1500)
      << "tenant 1 becomes active while only tenant 2 is active";
}

TEST(TenantSharesTest, ATenantThatReturnsKeepsADebt) {
  TenantShares shares(ShareOptions{});
  const int32_t a = shares.Enter(1);
  const int32_t b = shares.Enter(2);
  shares.ChargePrompt(a, 900);
  shares.ChargePrompt(b, 100);
  shares.Leave(a);
  shares.Enter(1);
  EXPECT_DOUBLE_EQ(shares.service(a), 900);
}

TEST(TenantSharesTest, ATenantThatArrivesAloneStartsAtTheLastCounter) {
  TenantShares shares(ShareOptions{});
  const int32_t a = shares.Enter(1);
  shares.ChargePrompt(a, 300);
  shares.Leave(a);
  EXPECT_DOUBLE_EQ(shares.service(shares.Enter(2)), 300);
}

// The default of Request::tenant is 0.
TEST(TenantSharesTest, TenantZeroKeepsItsIndexWhenOtherTenantsEnter) {
  TenantShares shares(ShareOptions{});
  const int32_t zero = shares.Enter(0);
  shares.Enter(1);
  EXPECT_EQ(shares.Enter(0), zero);
  EXPECT_EQ(shares.num_indices(), 2);
}

TEST(TenantSharesTest, MoreTenantsThanCountersShareTheLastOne) {
  TenantShares shares(ShareOptions{});
  for (uint64_t id = 0; id < kTenantsMax; ++id) shares.Enter(id);
  const int32_t shared = shares.Enter(5000);
  EXPECT_EQ(shared, kTenantsMax);
  EXPECT_EQ(shares.Enter(5001), shared);
  EXPECT_EQ(shares.Enter(7), 7);
  shares.Leave(3);
  EXPECT_EQ(shares.Enter(5002), 3) << "a new tenant takes the counter of an idle tenant";
  EXPECT_EQ(shares.Enter(3), shared);
  shares.Leave(shared);
  EXPECT_EQ(shares.num_indices(), kTenantsMax + 1);
}

TEST(TenantSharesTest, SlotsAreDividedByWeightAmongActiveTenants) {
  TenantShares shares({.weights = {{2, 3}}});
  const int32_t a = shares.Enter(1);
  EXPECT_DOUBLE_EQ(shares.SlotsOf(a, 8), 8);
  const int32_t b = shares.Enter(2);
  EXPECT_DOUBLE_EQ(shares.SlotsOf(a, 8), 2);
  EXPECT_DOUBLE_EQ(shares.SlotsOf(b, 8), 6);
  shares.Leave(b);
  EXPECT_DOUBLE_EQ(shares.SlotsOf(a, 8), 8);
}

}  // namespace
}  // namespace incipit
