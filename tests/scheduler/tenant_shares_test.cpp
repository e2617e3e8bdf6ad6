#include "scheduler/tenant_shares.h"

#include <gtest/gtest.h>

namespace incipit {
namespace {

// Adds a request of tenant `id`. One sequence of the request waits. Returns the index of the
// tenant.
int32_t EnterWaiting(TenantShares& shares, uint64_t id) {
  const int32_t index = shares.Enter(id);
  shares.CountWaiting(index, 1);
  return index;
}

// Ends the wait of a sequence of the tenant, and removes a request of the tenant.
void LeaveWaiting(TenantShares& shares, int32_t index) {
  shares.CountWaiting(index, -1);
  shares.Leave(index);
}

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

// The first request of tenant 3 arrives while a request of tenant 7 waits, so the counter of tenant
// 3 starts at the value of tenant 7. TakeServices must not report this start value as service.
TEST(TenantSharesTest, TakesTheServiceOfReportedTenantsAndTheSumOfTheOthers) {
  TenantShares shares({.weights = {{7, 4}}, .reported = {3, 7}});
  const int32_t heavy = EnterWaiting(shares, 7);
  shares.ChargePrompt(heavy, 40);
  const int32_t reported = EnterWaiting(shares, 3);
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
  const int32_t a = EnterWaiting(shares, 1);
  shares.ChargePrompt(a, 1000);
  const int32_t b = EnterWaiting(shares, 2);
  EXPECT_DOUBLE_EQ(shares.service(b), 1000);
  shares.ChargePrompt(b, 500);
  LeaveWaiting(shares, a);
  EXPECT_EQ(EnterWaiting(shares, 1), a);
  EXPECT_DOUBLE_EQ(shares.service(a), 1500)
      << "tenant 1 becomes active while only tenant 2 is active";
}

// The request of tenant 2 runs, and gets few tokens. Tenant 3 has the smallest counter, but none of
// its sequences waits.
TEST(TenantSharesTest, ATenantWithoutWaitingSequencesGainsNoCredit) {
  TenantShares shares(ShareOptions{});
  const int32_t a = EnterWaiting(shares, 1), b = EnterWaiting(shares, 2);
  const int32_t c = EnterWaiting(shares, 3);
  for (const int32_t tenant : {b, c}) shares.CountWaiting(tenant, -1);
  shares.ChargePrompt(a, 1000);
  shares.ChargeOutput(b, 10);
  EXPECT_EQ(EnterWaiting(shares, 2), b);
  EXPECT_DOUBLE_EQ(shares.service(b), 1000);
  shares.ChargePrompt(a, 500);
  EnterWaiting(shares, 2);
  EXPECT_DOUBLE_EQ(shares.service(b), 1000) << "another request of tenant 2 already waits";
  EXPECT_DOUBLE_EQ(shares.service(c), 0);
}

// The sequence of tenant 1 is preempted, and its prompt tokens are refunded.
TEST(TenantSharesTest, APreemptedSequenceDoesNotRaiseTheCounterOfItsTenant) {
  TenantShares shares(ShareOptions{});
  const int32_t a = EnterWaiting(shares, 1);
  shares.CountWaiting(a, -1);
  shares.ChargePrompt(a, 100);
  const int32_t b = EnterWaiting(shares, 2);
  EXPECT_DOUBLE_EQ(shares.service(b), 100);
  shares.ChargePrompt(a, -60);
  shares.CountWaiting(a, 1);
  EXPECT_DOUBLE_EQ(shares.service(a), 40);
}

TEST(TenantSharesTest, ATenantThatReturnsKeepsADebt) {
  TenantShares shares(ShareOptions{});
  const int32_t a = EnterWaiting(shares, 1);
  const int32_t b = EnterWaiting(shares, 2);
  shares.ChargePrompt(a, 900);
  shares.ChargePrompt(b, 100);
  LeaveWaiting(shares, a);
  EnterWaiting(shares, 1);
  EXPECT_DOUBLE_EQ(shares.service(a), 900);
}

TEST(TenantSharesTest, ATenantThatArrivesAloneStartsAtTheLastCounter) {
  TenantShares shares(ShareOptions{});
  const int32_t a = EnterWaiting(shares, 1);
  shares.ChargePrompt(a, 300);
  LeaveWaiting(shares, a);
  EXPECT_DOUBLE_EQ(shares.service(EnterWaiting(shares, 2)), 300);
}

// The request of tenant 1 gets tokens after it has ceased to wait.
TEST(TenantSharesTest, TheLastCounterIncludesTheTokensOfRunningSequences) {
  TenantShares shares(ShareOptions{});
  const int32_t a = EnterWaiting(shares, 1);
  shares.CountWaiting(a, -1);
  shares.ChargePrompt(a, 300);
  EXPECT_DOUBLE_EQ(shares.service(EnterWaiting(shares, 2)), 300);
}

TEST(TenantSharesTest, TheLastCounterIsKeptWhenItsTenantLosesTheIndex) {
  TenantShares shares(ShareOptions{});
  for (uint64_t id = 0; id < kTenantsMax; ++id) shares.Enter(id);
  shares.CountWaiting(5, 1);
  shares.ChargePrompt(5, 300);
  LeaveWaiting(shares, 5);
  EXPECT_EQ(EnterWaiting(shares, 5000), 5);
  EXPECT_DOUBLE_EQ(shares.service(5), 300);
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
