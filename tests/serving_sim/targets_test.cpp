// Tests the goals of docs/scheduler.md in the simulation with time: Incipit's scheduler against the
// baselines, on two device models.
#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>

#include "scheduler/scheduler.h"
#include "tests/serving_sim/metrics.h"
#include "tests/serving_sim/refusals.h"
#include "tests/serving_sim/run.h"

namespace incipit::serving_sim {
namespace {

// The log of requests that LoadKind::kMooncake reads.
constexpr const char* kMooncakeTrace =
    INCIPIT_SOURCE_DIR "/tests/data/traces/mooncake_synthetic_trace.jsonl";

// The figures of all schedulers for one load on one device.
struct Comparison {
  Metrics ours, chunked;
  double best_goodput = 0, best_throughput = 0;  // largest values of all baselines
};

Comparison Compare(const char* device_name, LoadKind kind, double utilization) {
  const DeviceModel& device = *FindDevice(device_name);
  const auto load =
      MakeLoad(device, {.kind = kind, .utilization = utilization, .trace = kMooncakeTrace});
  EXPECT_TRUE(load.ok()) << load.status();
  Comparison comparison;
  for (const auto& [scheduler, name] : kSchedulerNames) {
    const auto created = MakeScheduler(scheduler, device, *load, /*steps_in_flight=*/1);
    const Metrics metrics = Measure(device, *load, RunLoad(device, *load, *created));
    if (scheduler == SchedulerKind::kOurs) {
      comparison.ours = metrics;
      continue;
    }
    if (scheduler == SchedulerKind::kFcfsChunked) comparison.chunked = metrics;
    comparison.best_goodput = std::max(comparison.best_goodput, metrics.goodput);
    comparison.best_throughput = std::max(comparison.best_throughput, metrics.throughput);
  }
  return comparison;
}

constexpr const char* kDeviceNames[] = {"h100_8b", "cpu_0.5b"};

TEST(TargetsTest, GoodputIsAtLeastAThirdHigherThanThatOfTheBestBaseline) {
  for (const char* device : kDeviceNames) {
    for (const LoadKind kind :
         {LoadKind::kLongAndShort, LoadKind::kHeavyRate, LoadKind::kDeadline}) {
      for (const double utilization : {0.5, 0.95}) {
        const Comparison comparison = Compare(device, kind, utilization);
        EXPECT_GE(comparison.ours.goodput, 1.3 * comparison.best_goodput)
            << device << " load " << static_cast<int>(kind) << " at " << utilization;
      }
    }
  }
}

TEST(TargetsTest, GoodputIsAtLeastAThirdHigherIfOneTenantSendsABurst) {
  for (const char* device : kDeviceNames) {
    for (const double utilization : {0.5, 0.7, 0.95}) {
      const Comparison comparison = Compare(device, LoadKind::kHeavyBurst, utilization);
      EXPECT_GE(comparison.ours.goodput, 1.3 * comparison.best_goodput)
          << device << " at " << utilization;
    }
  }
}

TEST(TargetsTest, ShortPromptsBehindLongOnesWaitATenthOfTheTimeOnTheCpu) {
  for (const double utilization : {0.5, 0.7, 0.95}) {
    const Comparison comparison = Compare("cpu_0.5b", LoadKind::kLongAndShort, utilization);
    EXPECT_LE(comparison.ours.focus_ttft.p99, 0.1 * comparison.chunked.focus_ttft.p99)
        << utilization;
  }
}

void ExpectThroughput(std::initializer_list<LoadKind> loads,
                      std::initializer_list<double> utilizations) {
  for (const char* device : kDeviceNames) {
    for (const LoadKind kind : loads) {
      for (const double utilization : utilizations) {
        const Comparison comparison = Compare(device, kind, utilization);
        EXPECT_GE(comparison.ours.throughput, 0.97 * comparison.best_throughput)
            << device << " load " << static_cast<int>(kind) << " at " << utilization;
      }
    }
  }
}

TEST(TargetsTest, ThroughputIsAtMostThreePercentLowerThanThatOfTheBestBaseline) {
  ExpectThroughput({LoadKind::kSteady, LoadKind::kLongAndShort, LoadKind::kHeavyRate}, {0.7, 0.95});
}

TEST(TargetsTest, ThroughputIsAtMostThreePercentLowerIfRequestsArriveInBursts) {
  ExpectThroughput({LoadKind::kBursty, LoadKind::kHeavyBurst}, {0.95});
}

TEST(TargetsTest, ThroughputIsAtMostThreePercentLowerWithTheLogOfMooncake) {
  ExpectThroughput({LoadKind::kMooncake}, {0.7, 0.95});
}

TEST(TargetsTest, BackloggedTenantsGetEqualServiceAndFewOvertakes) {
  const Comparison comparison = Compare("h100_8b", LoadKind::kOverload, 1.5);
  EXPECT_TRUE(comparison.ours.service.has_window);
  EXPECT_LE(comparison.ours.service.excess_requests, 1);
  EXPECT_LE(comparison.ours.overtakes, kOvertakenMax);
}

TEST(TargetsTest, FewRequestsMissTheirDeadlineAndFewAreRefusedWithoutNeed) {
  const std::pair<LoadKind, double> loads[] = {
      {LoadKind::kDeadline, 0.5}, {LoadKind::kDeadline, 0.95}, {LoadKind::kTimeout, 0.95}};
  for (const char* name : kDeviceNames) {
    const DeviceModel& device = *FindDevice(name);
    for (const auto& [kind, utilization] : loads) {
      SCOPED_TRACE(fmt::format("{} {} {}", name, NameIn(kLoadNames, kind), utilization));
      const auto load = MakeLoad(device, {.kind = kind, .utilization = utilization});
      ASSERT_TRUE(load.ok()) << load.status();
      const auto scheduler = MakeScheduler(SchedulerKind::kOurs, device, *load, 1);
      const RunRecord run = RunLoad(device, *load, *scheduler);
      const Metrics metrics = Measure(device, *load, run);
      EXPECT_GT(metrics.refused, 0);
      const auto num_requests = static_cast<double>(load->requests.size());
      EXPECT_LE(static_cast<double>(metrics.late), 0.02 * num_requests);
      EXPECT_LE(WronglyRefused(device, *load, SchedulerKind::kOurs, 1, {}, run, 60), 0.01);
    }
  }
}

}  // namespace
}  // namespace incipit::serving_sim
