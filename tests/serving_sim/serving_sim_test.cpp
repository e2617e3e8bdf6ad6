// Tests the simulation with time: its runs, its metrics and its log of the service of tenants.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/serving_sim/metrics.h"
#include "tests/serving_sim/refusals.h"
#include "tests/serving_sim/report.h"
#include "tests/serving_sim/run.h"

namespace incipit::serving_sim {
namespace {

using testing::HasSubstr;

// A small device: 3 prompt tokens take as long as the constant time of a step.
constexpr DeviceModel kDevice = {.name = "test",
                                 .step_s = 0.03,
                                 .prompt_token_s = 0.01,
                                 .decoding_s = 0.001,
                                 .position_s = 1e-6,
                                 .step_tokens_max = 64,
                                 .running_max = 8,
                                 .num_blocks = 600,
                                 .horizon_s = 60,
                                 .think_s = 5};

SimRequest RequestOf(uint64_t text, double arrival, int32_t num_prompt, int32_t num_output) {
  SimRequest request;
  request.arrival = arrival;
  request.tenant = 1;
  for (int32_t i = 0; i < num_prompt; ++i) request.prompt.push_back(TextToken(text, i));
  request.output_tokens = num_output;
  request.output_text = text + 1000;
  return request;
}

Load LoadOf(const DeviceModel& device, std::vector<SimRequest> requests) {
  Load load;
  load.requests = std::move(requests);
  MeasureLoad(device, load);
  return load;
}

RunRecord RunOn(const DeviceModel& device, const Load& load, SchedulerKind kind,
                int32_t steps_in_flight = 1) {
  return RunLoad(device, load, *MakeScheduler(kind, device, load, steps_in_flight));
}

// The prompt takes 30 + 10 * 10 ms, and each decode 30 + 1 ms. Positions are almost free.
TEST(RunTest, OneRequestTakesTheTimesOfTheModel) {
  const Load load = LoadOf(kDevice, {RequestOf(1, 2, 10, 3)});
  for (const auto& [kind, name] : kSchedulerNames) {
    const RunRecord run = RunOn(kDevice, load, kind);
    const RequestRecord& record = run.requests[0];
    EXPECT_NEAR(record.first_token, 2.13, 1e-3) << name;
    ASSERT_EQ(record.gaps.size(), 2u) << name;
    EXPECT_NEAR(record.gaps[0].seconds, 0.031, 1e-4) << name;
    EXPECT_NEAR(record.gaps[0].ratio, 1, 1e-3) << name;
    EXPECT_NEAR(run.end_s, 2.192, 1e-3) << name;
    EXPECT_EQ(run.num_steps, 3) << name;
    EXPECT_EQ(run.prompt_tokens, 10) << name;
  }
}

// The prompt of the second request arrives while the first request decodes. The gap of the first
// request becomes 30 + 200 + 1 ms. A step that only decodes takes 31 ms.
TEST(RunTest, APromptMakesTheGapOfOthersLonger) {
  const Load load = LoadOf(kDevice, {RequestOf(1, 0, 10, 4), RequestOf(2, 0.131, 20, 1)});
  const RunRecord run = RunOn(kDevice, load, SchedulerKind::kFcfsChunked);
  const std::vector<TokenGap>& gaps = run.requests[0].gaps;
  ASSERT_EQ(gaps.size(), 3u);
  EXPECT_NEAR(gaps[0].seconds, 0.031, 1e-3);
  EXPECT_NEAR(gaps[1].seconds, 0.231, 1e-3);
  EXPECT_NEAR(gaps[1].ratio, 0.231 / 0.031, 0.01);
  EXPECT_EQ(run.requests[1].first_step - run.requests[1].arrival_step, 0);
}

TEST(RunTest, EveryRequestEndsWithItsOutputOnEveryScheduler) {
  DeviceModel device = kDevice;
  device.num_blocks = 200;  // too few for all sequences, so that some are preempted
  for (const LoadKind load_kind : {LoadKind::kBursty, LoadKind::kMultiTurn, LoadKind::kOverload}) {
    const auto load =
        MakeLoad(device, {.kind = load_kind, .utilization = 0.9, .seed = 3, .horizon_s = 20});
    ASSERT_TRUE(load.ok());
    for (const auto& [kind, name] : kSchedulerNames) {
      const RunRecord run = RunOn(device, *load, kind);
      int64_t num_complete = 0;
      for (const RequestRecord& record : run.requests) num_complete += record.is_complete;
      EXPECT_EQ(num_complete, std::ssize(load->requests)) << name;
      EXPECT_GE(run.end_s, load->makespan_min * (1 - 1e-9)) << name;
      EXPECT_LE(run.busy_s, run.end_s + 1e-9) << name;
    }
  }
}

TEST(RunTest, EqualSeedsGiveEqualRuns) {
  const auto load =
      MakeLoad(kDevice, {.kind = LoadKind::kBursty, .utilization = 0.8, .horizon_s = 10});
  ASSERT_TRUE(load.ok());
  const auto end = [&](uint64_t seed) {
    const auto scheduler = MakeScheduler(SchedulerKind::kOurs, kDevice, *load, 1);
    return RunLoad(kDevice, *load, *scheduler, {.noise = 0.2, .seed = seed}).end_s;
  };
  EXPECT_EQ(end(1), end(1));
  EXPECT_NE(end(1), end(2));
}

// With two steps in flight, a request that arrives during a step starts one step later.
TEST(RunTest, TwoStepsInFlightPlanOneStepAhead) {
  const Load load = LoadOf(kDevice, {RequestOf(1, 0, 10, 20), RequestOf(2, 0.14, 10, 1)});
  const RunRecord one = RunOn(kDevice, load, SchedulerKind::kOurs, 1);
  const RunRecord two = RunOn(kDevice, load, SchedulerKind::kOurs, 2);
  EXPECT_EQ(one.requests[1].first_step + 1, two.requests[1].first_step);
  EXPECT_NEAR(one.end_s, two.end_s, 1e-6);
}

TEST(RunTest, ARequestWhoseDeadlinePassesInTheQueueIsRefused) {
  DeviceModel device = kDevice;
  device.running_max = 1;
  std::vector<SimRequest> requests = {RequestOf(1, 0, 10, 1000), RequestOf(2, 0.5, 10, 1)};
  requests[1].ttft_deadline = 0.6;
  const Load load = LoadOf(device, std::move(requests));
  const Metrics metrics = Measure(device, load, RunOn(device, load, SchedulerKind::kOurs));
  EXPECT_EQ(metrics.refused, 1);
  EXPECT_EQ(metrics.late, 0);
}

// In the recorded run, the scheduler has refused request 1. Without the refusal, request 1 would
// wait until request 0 ends, at about 3.3 s. So the refusal is right for a deadline of 0.6 s, and
// wrong for a deadline of 5 s.
TEST(RefusalsTest, ARefusalIsWrongIfTheRequestWouldHaveBeenInTime) {
  DeviceModel device = kDevice;
  device.running_max = 1;
  for (const double deadline : {0.6, 5.0}) {
    std::vector<SimRequest> requests = {RequestOf(1, 0, 10, 100), RequestOf(2, 0.5, 10, 1)};
    requests[1].ttft_deadline = deadline;
    const Load load = LoadOf(device, std::move(requests));
    RunRecord run;
    run.requests.resize(2);
    const double wrong = WronglyRefused(device, load, SchedulerKind::kOurs, 1, {}, run, 10);
    EXPECT_EQ(wrong, deadline > 3 ? 1 : 0);
  }
}

TEST(MetricsTest, PercentilesAreValuesByTheNearestRank) {
  std::vector<double> values;
  for (int32_t i = 200; i > 0; --i) values.push_back(i);
  EXPECT_EQ(PercentilesOf(values).p50, 100);
  EXPECT_EQ(PercentilesOf(values).p99, 198);
  std::vector<double> one = {7};
  EXPECT_EQ(PercentilesOf(one).p99, 7);
}

// Request 0 meets both targets of the goodput. The first token of request 1 is late. Request 2 has
// one time between two tokens that is too long.
TEST(MetricsTest, GoodputCountsRequestsThatMeetBothTargets) {
  const Load load =
      LoadOf(kDevice, {RequestOf(1, 0, 10, 3), RequestOf(2, 0, 10, 3), RequestOf(3, 0, 10, 3)});
  RunRecord run;
  run.end_s = 2;
  run.num_steps = 9;
  const double target = 5 * AloneSeconds(kDevice, 10);
  run.requests.resize(3);
  for (RequestRecord& record : run.requests) {
    record.first_step = 0;
    record.first_token = target;
    record.num_output = 3;
    record.is_complete = true;
    record.gaps = {{0.05F, 1.9F}, {0.05F, 2.0F}};
  }
  run.requests[1].first_token = target * 1.001;
  run.requests[2].gaps[0].ratio = 2.1F;
  const Metrics metrics = Measure(kDevice, load, run);
  EXPECT_DOUBLE_EQ(metrics.goodput, 0.5);
  EXPECT_DOUBLE_EQ(metrics.met_ttft, 2.0 / 3);
  EXPECT_DOUBLE_EQ(metrics.met_itl, 2.0 / 3);
  EXPECT_DOUBLE_EQ(metrics.throughput, 4.5);
}

TEST(MetricsTest, OvertakesCountLaterRequestsOfTheSameTenant) {
  Load load = LoadOf(kDevice, {RequestOf(1, 0, 1, 1), RequestOf(2, 1, 1, 1), RequestOf(3, 2, 1, 1),
                               RequestOf(4, 3, 1, 1)});
  load.requests[1].tenant = 2;
  RunRecord run;
  run.num_steps = 10;
  run.requests.resize(4);
  run.requests[0].first_step = 5;
  run.requests[1].first_step = 0;  // another tenant
  run.requests[2].first_step = 4;
  run.requests[3].first_step = 3;
  EXPECT_EQ(MaxOvertakes(load, run), 2);
  // Request 3 starts in the same step as request 0, so request 3 overtakes no request.
  run.requests[3].first_step = 5;
  EXPECT_EQ(MaxOvertakes(load, run), 1);
}

// For 40 seconds, tenant 1 gets 100 tokens per second and tenant 2 gets 60 tokens per second. Both
// tenants always have waiting requests.
TEST(ServiceLogTest, ComparesTenantsThatWaitInTheWholeWindow) {
  ServiceLog log;
  log.SetWaiting(1, 0, 3);
  log.SetWaiting(2, 0, 1);
  for (int32_t i = 0; i < 40; ++i) {
    log.AddService(1, i + 0.5, 100);
    log.AddService(2, i + 0.5, 60);
  }
  log.AddRequest(300);
  const ServiceDifference difference = log.LargestDifference(30, 40);
  EXPECT_TRUE(difference.has_window);
  EXPECT_NEAR(difference.share, 0.4, 1e-9);
  EXPECT_NEAR(difference.requests, 4, 1e-9);
  EXPECT_NEAR(difference.excess_requests, 3, 1e-9);
}

TEST(ServiceLogTest, ATenantThatDoesNotWaitIsNotCompared) {
  ServiceLog log;
  log.SetWaiting(1, 0, 3);
  log.SetWaiting(2, 0, 1);
  log.SetWaiting(2, 20.2, 0);
  log.SetWaiting(2, 20.4, 1);
  log.AddService(1, 10, 500);
  EXPECT_FALSE(log.LargestDifference(30, 40).has_window);
  // Both tenants wait in the seconds 1 to 19.
  EXPECT_TRUE(log.LargestDifference(19, 40).has_window);
}

TEST(ReportTest, TablesHaveARowForEachResult) {
  std::vector<RunResult> results(2);
  results[0].metrics.goodput = 6;
  results[0].metrics.throughput = 99;
  results[1].scheduler = SchedulerKind::kFcfsChunked;
  results[1].metrics.goodput = 4;
  results[1].metrics.throughput = 100;
  EXPECT_THAT(ResultTable(results), HasSubstr("fcfs_chunked"));
  EXPECT_THAT(ComparisonTable(results), HasSubstr("1.50"));
  EXPECT_THAT(ComparisonTable(results), HasSubstr("0.99"));
  EXPECT_THAT(ResultJson(kDevice, results[0]), HasSubstr(R"("goodput":6.0)"));
}

}  // namespace
}  // namespace incipit::serving_sim
