// Tests the guarantees of the scheduler in the simulation with time, with failed steps, logits that
// are not finite, and cancelled requests.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/serving_sim/fault_loads.h"
#include "tests/serving_sim/metrics.h"
#include "tests/serving_sim/properties.h"

namespace incipit::serving_sim {
namespace {

constexpr FaultOptions kAllFaults = {.abort = 0.05, .poison = 0.02, .cancel = 0.2};
constexpr SchedulingKind kSchedulings[] = {SchedulingKind::kFcfs, SchedulingKind::kFair};

// The results of a run whose properties were checked.
struct CheckedRun {
  RunRecord run;
  int32_t passes_max = 0;
  ServiceDifference service;
};

// Returns the maximum of ServiceDifference::excess_requests that a run may have. On cpu_0.5b, an
// interval of kServiceWindow has fewer than 100 steps. Most service of the interval then goes to
// sequences that started before the interval, so that the scheduler cannot equalize the tenants.
double ExcessMax(const DeviceModel& device) { return device.name == "cpu_0.5b" ? 4 : 1; }

CheckedRun RunChecked(const DeviceModel& device, const Load& load, SchedulingKind scheduling,
                      int32_t steps_in_flight, const FaultOptions& faults) {
  OwnScheduler scheduler(device, load, steps_in_flight, scheduling);
  PropertyChecks checks(load, scheduler);
  CheckedRun checked;
  checked.run = RunLoad(device, load, scheduler, {.faults = faults}, &checks);
  EXPECT_EQ(checks.Finish(), "") << "policy " << static_cast<int>(scheduling) << ", "
                                 << steps_in_flight << " steps in flight";
  checked.passes_max = checks.passes_max();
  checked.service = checked.run.service.LargestDifference(kServiceWindow, checked.run.end_s);
  if (scheduling == SchedulingKind::kFair) {
    EXPECT_LE(checked.service.excess_requests, ExcessMax(device))
        << steps_in_flight << " steps in flight";
  }
  return checked;
}

// The load mooncake is left out, because its prompts are longer than the cache of the device.
TEST(FaultTest, EveryLoadKeepsTheGuarantees) {
  FaultCounts counts;
  int64_t num_preemptions = 0;
  for (const auto& [kind, name] : kLoadNames) {
    if (kind == LoadKind::kMooncake) continue;
    SCOPED_TRACE(name);
    auto load = MakeLoad(kFastDevice, {.kind = kind, .utilization = 0.9, .horizon_s = 8});
    ASSERT_TRUE(load.ok());
    AddVariety(kFastDevice, 1, *load);
    for (const SchedulingKind scheduling : kSchedulings) {
      for (const int32_t steps_in_flight : {1, 2}) {
        const RunRecord run =
            RunChecked(kFastDevice, *load, scheduling, steps_in_flight, kAllFaults).run;
        counts += run.faults;
        num_preemptions += run.num_preemptions;
      }
    }
  }
  // Each kind of fault must be frequent. Otherwise the runs would not test this kind.
  EXPECT_GT(counts.aborted_steps, 1000);
  EXPECT_GT(counts.poisoned_rows, 500);
  EXPECT_GT(counts.cancelled_waiting, 500);
  EXPECT_GT(counts.cancelled_prefill, 500);
  EXPECT_GT(counts.cancelled_decoding, 500);
  EXPECT_GT(counts.cancelled_choices, 500);
  EXPECT_GT(counts.cancelled_in_flight, 500);
  EXPECT_GT(num_preemptions, 100);
}

// With 300 blocks, the cache holds 4,800 tokens, and many requests wait for free blocks.
TEST(FaultTest, ASmallCacheKeepsTheGuarantees) {
  DeviceModel device = kFastDevice;
  device.num_blocks = 300;
  int64_t num_preemptions = 0;
  for (const LoadKind kind : {LoadKind::kLongAndShort, LoadKind::kOverload, LoadKind::kMultiTurn}) {
    SCOPED_TRACE(static_cast<int>(kind));
    for (const uint64_t seed : {1, 2}) {
      auto load = MakeLoad(device, {.kind = kind, .utilization = 1, .seed = seed, .horizon_s = 5});
      ASSERT_TRUE(load.ok());
      AddVariety(device, seed, *load);
      for (const SchedulingKind scheduling : kSchedulings) {
        for (const int32_t steps_in_flight : {1, 2}) {
          num_preemptions += RunChecked(device, *load, scheduling, steps_in_flight, kAllFaults)
                                 .run.num_preemptions;
        }
      }
    }
  }
  EXPECT_GT(num_preemptions, 1000);
}

// Runs a load with and without faults. The requests that ended before the first fault must have the
// same history in both runs.
TEST(FaultTest, NothingChangesBeforeTheFirstFault) {
  const auto load = MakeLoad(kFastDevice, {.kind = LoadKind::kSteady, .utilization = 0.9});
  ASSERT_TRUE(load.ok());
  size_t num_compared = 0;
  for (const int32_t steps_in_flight : {1, 2}) {
    const auto run = [&](const FaultOptions& faults) {
      return RunChecked(kFastDevice, *load, SchedulingKind::kFair, steps_in_flight, faults).run;
    };
    const RunRecord without = run({});
    EXPECT_EQ(without.faults.first_fault_s, kNever);
    for (const FaultOptions& faults : {FaultOptions{.abort = 5e-4}, FaultOptions{.poison = 5e-4},
                                       FaultOptions{.cancel = 2e-3}}) {
      const RunRecord with = run(faults);
      ASSERT_LT(with.faults.first_fault_s, kNever);
      for (size_t i = 0; i < with.requests.size(); ++i) {
        const RequestRecord& a = with.requests[i];
        const RequestRecord& b = without.requests[i];
        if (a.end >= with.faults.first_fault_s) continue;
        ++num_compared;
        EXPECT_EQ(a.first_step, b.first_step);
        EXPECT_EQ(a.first_token, b.first_token);
        EXPECT_EQ(a.end, b.end);
        EXPECT_EQ(a.cached_tokens, b.cached_tokens);
        EXPECT_EQ(a.num_output, b.num_output);
      }
    }
  }
  EXPECT_GT(num_compared, 500u);
}

// A prefix that 48 requests of a burst share. The device computes the prefix in 10 steps or more.
constexpr int32_t kBurstShared = 640;
constexpr DeviceModel BurstDevice() {
  DeviceModel device = kFastDevice;
  device.step_tokens_max = 64;
  device.running_max = 16;
  device.num_blocks = 6000;  // no block is evicted
  return device;
}

struct BurstCase {
  const char* name;
  FaultOptions faults;
  double itl_target_s = 0;
};

// The producer of the prefix has the lowest priority in each case. With an ITL target of 1 ms, each
// step computes one prompt token while other sequences decode. With kFair, a producer is preempted
// for other tenants.
const BurstCase kBurstCases[] = {
    {"none", {}},
    {"throttled", {}, 1e-3},
    {"cancelled", {.cancel = 0.6}},
    {"failed steps", {.abort = 0.3}},
    {"logits not finite", {.poison = 0.1}},
    {"all", {.abort = 0.1, .poison = 0.05, .cancel = 0.5}, 3e-3},
};

TEST(FaultTest, ABurstComputesItsPrefixOnce) {
  DeviceModel device = BurstDevice();
  int64_t num_preemptions = 0;
  for (const BurstCase& burst : kBurstCases) {
    FaultCounts counts;
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      const Load load = MakeBurst(device, kBurstShared, seed);
      const std::vector<TokenId>& prompt = load.requests.back().prompt;
      device.itl_target_s = burst.itl_target_s;
      for (const SchedulingKind scheduling : kSchedulings) {
        for (const int32_t steps_in_flight : {1, 2}) {
          OwnScheduler scheduler(device, load, steps_in_flight, scheduling);
          PrefixCount count(load, scheduler, {prompt.begin(), prompt.begin() + kBurstShared});
          FaultOptions faults = burst.faults;
          faults.seed = seed;
          const RunRecord run = RunLoad(device, load, scheduler, {.faults = faults}, &count);
          const std::string place =
              absl::StrCat(burst.name, ", seed ", seed, ", policy ", static_cast<int>(scheduling),
                           ", ", steps_in_flight, " steps in flight");
          EXPECT_EQ(count.Finish(), "") << place;
          // Values that are not finite are never shared, so other requests compute them again.
          EXPECT_LE(count.computed_max(), 1 + count.num_poisoned()) << place;
          counts += run.faults;
          num_preemptions += run.num_preemptions;
        }
      }
    }
    EXPECT_GE(counts.aborted_steps, burst.faults.abort > 0 ? 100 : 0) << burst.name;
    EXPECT_GE(counts.poisoned_rows, burst.faults.poison > 0 ? 100 : 0) << burst.name;
    EXPECT_GE(counts.cancelled_prefill, burst.faults.cancel > 0 ? 100 : 0) << burst.name;
  }
  EXPECT_GT(num_preemptions, 100);
}

// Longer than kServiceWindow.
constexpr double kStreamSeconds = 33;

// Four tenants send more short prompts than the device can compute. Tenant 1 sends prompts of 2,000
// to 3,000 tokens, which need several steps.
TEST(FaultTest, ShortPromptsDoNotHoldUpLongOnesOfOtherTenants) {
  std::vector<RequestStream> streams = {
      {.tenant = 1, .rate = 4, .prompt_min = 2000, .prompt_max = 3000, .output_max = 8}};
  for (uint64_t tenant = 2; tenant <= 5; ++tenant) {
    streams.push_back(
        {.tenant = tenant, .rate = 160, .prompt_min = 32, .prompt_max = 64, .output_max = 4});
  }
  const Load load = MixStreams(kFastDevice, streams, kStreamSeconds, 1);
  for (const int32_t steps_in_flight : {1, 2}) {
    for (const bool has_faults : {false, true}) {
      const FaultOptions faults = has_faults ? kAllFaults : FaultOptions{};
      const auto run = [&](SchedulingKind scheduling) {
        return RunChecked(kFastDevice, load, scheduling, steps_in_flight, faults);
      };
      EXPECT_LE(run(SchedulingKind::kFcfs).passes_max, kOvertakenMax);
      const ServiceDifference service = run(SchedulingKind::kFair).service;
      EXPECT_TRUE(service.has_window);
      EXPECT_LE(service.excess_requests, 1) << steps_in_flight << " steps in flight";
    }
  }
}

// The loads have at least three tenants. Requests arrive at 1.5 times the capacity of the device.
TEST(FaultTest, TenantsThatAlwaysWaitGetTheirShares) {
  struct Case {
    const char* device;
    double horizon_s;
    std::vector<LoadKind> loads;
  };
  const Case cases[] = {
      {"h100_8b",
       45,
       {LoadKind::kSteady, LoadKind::kLongAndShort, LoadKind::kHeavyBurst, LoadKind::kOverload}},
      {"cpu_0.5b", 600, {LoadKind::kSteady, LoadKind::kOverload, LoadKind::kDeadline}}};
  for (const Case& shares : cases) {
    const DeviceModel& device = *FindDevice(shares.device);
    for (const LoadKind kind : shares.loads) {
      SCOPED_TRACE(testing::Message() << device.name << ", load " << static_cast<int>(kind));
      auto load =
          MakeLoad(device, {.kind = kind, .utilization = 1.5, .horizon_s = shares.horizon_s});
      ASSERT_TRUE(load.ok());
      AddVariety(device, 1, *load);
      for (const int32_t steps_in_flight : {1, 2}) {
        const CheckedRun checked =
            RunChecked(device, *load, SchedulingKind::kFair, steps_in_flight, kAllFaults);
        EXPECT_TRUE(checked.service.has_window);
      }
    }
  }
}

// Tenant 1 cancels each request while a step computes its prompt. These steps count as service of
// tenant 1, so tenant 2 gets half of the device.
TEST(FaultTest, ATenantThatCancelsItsRequestsGetsItsShareOnly) {
  const std::vector<RequestStream> streams = {
      {.tenant = 1, .rate = 250, .prompt_min = 600, .prompt_max = 900, .output_max = 8},
      {.tenant = 2, .rate = 60, .prompt_min = 400, .prompt_max = 800, .output_max = 8}};
  const Load load = MixStreams(kFastDevice, streams, kStreamSeconds, 1);
  for (const int32_t steps_in_flight : {1, 2}) {
    const CheckedRun checked = RunChecked(kFastDevice, load, SchedulingKind::kFair, steps_in_flight,
                                          {.cancel = 1, .cancelling_tenant = 1});
    EXPECT_GT(checked.run.faults.cancelled_prefill, 1000);
    EXPECT_TRUE(checked.service.has_window);
    EXPECT_LE(checked.service.excess_requests, 1) << steps_in_flight << " steps in flight";
  }
}

// For 60 s, tenant 1 has only one request, with a long output. Tenant 2 sends more requests than
// the device can compute. Then tenant 1 sends more requests too. Each tenant must then get half of
// the device.
TEST(FaultTest, ATenantWithOneLongOutputGainsNoCredit) {
  constexpr double kTrickleSeconds = 60;
  const RequestStream stream = {.rate = 90, .prompt_min = 400, .prompt_max = 800, .output_max = 8};
  RequestStream other = stream;
  other.tenant = 2;
  Load load = MixStreams(kFastDevice, {other}, kTrickleSeconds + kStreamSeconds, 1);
  Load burst = MixStreams(kFastDevice, {stream}, kStreamSeconds, 2);
  for (SimRequest& request : burst.requests) request.arrival += kTrickleSeconds;
  SimRequest& trickle = burst.requests.front();
  trickle.arrival = 0;
  trickle.output_tokens = 10'000;
  std::ranges::move(burst.requests, std::back_inserter(load.requests));
  std::ranges::stable_sort(load.requests, {}, &SimRequest::arrival);
  MeasureLoad(kFastDevice, load);
  for (const int32_t steps_in_flight : {1, 2}) {
    const CheckedRun checked =
        RunChecked(kFastDevice, load, SchedulingKind::kFair, steps_in_flight, {});
    EXPECT_GT(checked.run.requests.front().end, kTrickleSeconds / 2);
    EXPECT_TRUE(checked.service.has_window);
    EXPECT_LE(checked.service.excess_requests, 1) << steps_in_flight << " steps in flight";
  }
}

// Tenant 1 holds all slots (running sequences) with long outputs before tenant 2 sends requests.
TEST(FaultTest, ATenantGetsItsShareOfTheSlotsFromLongOutputs) {
  DeviceModel device = kFastDevice;
  device.num_blocks = 40'000;  // enough for all running sequences
  Load load = MixStreams(device,
                         {{.tenant = 1, .rate = 1000, .prompt_min = 32, .prompt_max = 64},
                          {.tenant = 2, .rate = 1000, .prompt_min = 32, .prompt_max = 64}},
                         0.06, 1);
  for (SimRequest& request : load.requests) {
    request.output_tokens = 14'000;
    if (request.tenant == 2) request.arrival += 0.5;
  }
  std::ranges::stable_sort(load.requests, {}, &SimRequest::arrival);
  for (const int32_t steps_in_flight : {1, 2}) {
    const CheckedRun checked =
        RunChecked(device, load, SchedulingKind::kFair, steps_in_flight, {.abort = 0.01});
    EXPECT_TRUE(checked.service.has_window);
    EXPECT_LE(checked.service.excess_requests, 1) << steps_in_flight << " steps in flight";
  }
}

// Requests of tenant 1 wait until another request has computed their prefix of thousands of tokens.
// Meanwhile, short prompts of the same tenant arrive.
TEST(FaultTest, RequestsThatWaitForAPrefixAreOvertakenABoundedNumberOfTimes) {
  const std::vector<RequestStream> streams = {
      {.rate = 1, .prompt_min = 8100, .prompt_max = 8200, .output_max = 8, .num_shared = 8000},
      {.rate = 3, .prompt_min = 7100, .prompt_max = 7200, .output_max = 8, .num_shared = 7000},
      {.rate = 350, .prompt_min = 32, .prompt_max = 64, .output_max = 4}};
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const Load load = MixStreams(kFastDevice, streams, 10, seed);
    for (const SchedulingKind scheduling : kSchedulings) {
      for (const int32_t steps_in_flight : {1, 2}) {
        RunChecked(kFastDevice, load, scheduling, steps_in_flight, {});
        RunChecked(kFastDevice, load, scheduling, steps_in_flight, kAllFaults);
      }
    }
  }
}

}  // namespace
}  // namespace incipit::serving_sim
