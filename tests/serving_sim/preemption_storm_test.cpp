// Tests that a storm of preemptions does not lower the throughput after the storm.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/serving_sim/fault_loads.h"
#include "tests/serving_sim/properties.h"

namespace incipit::serving_sim {
namespace {

constexpr int32_t kTenantsInStorm = 3;
constexpr double kStormBegin = 6, kLastArrival = 30, kWindow = 5;  // in seconds

// Returns a device whose cache is large enough for the running sequences of the steady phase, and
// too small for the running sequences of the storm.
constexpr DeviceModel StormDevice() {
  DeviceModel device = kFastDevice;
  device.num_blocks = 600;
  return device;
}

bool IsOfStorm(const SimRequest& request) { return request.output_tokens >= 400; }

// Returns a load in which requests with at most 64 output tokens always wait. At kStormBegin, 150
// requests with at least 400 output tokens arrive (the storm).
Load MakeStorm(uint64_t seed) {
  std::vector<RequestStream> streams;
  for (uint64_t tenant = 1; tenant <= kTenantsInStorm; ++tenant) {
    streams.push_back({.tenant = tenant,
                       .rate = 90,
                       .prompt_min = 32,
                       .prompt_max = 128,
                       .output_min = 16,
                       .output_max = 64});
  }
  Load load = MixStreams(StormDevice(), streams, kLastArrival, seed);
  Random random(Mix(seed, 100));
  for (int32_t i = 0; i < 150; ++i) {
    SimRequest request;
    request.arrival = kStormBegin;
    request.tenant = static_cast<uint64_t>(1 + i % kTenantsInStorm);
    const uint64_t text = random.Bits();
    for (int32_t token = 0; token < 48; ++token) request.prompt.push_back(TextToken(text, token));
    request.output_text = Mix(text, 1);
    request.output_tokens = random.Pick(400, 600);
    load.requests.push_back(std::move(request));
  }
  std::ranges::stable_sort(load.requests, {}, &SimRequest::arrival);
  MeasureLoad(StormDevice(), load);
  return load;
}

// Also records the times of all output tokens and all preemptions.
class StormObserver : public PropertyChecks {
 public:
  using PropertyChecks::PropertyChecks;

  void OnPlan(const SimStep& step, double now) override {
    PropertyChecks::OnPlan(step, now);
    preemptions_.insert(preemptions_.end(), static_cast<size_t>(step.num_preemptions), now);
  }
  void OnEvents(const SimEvents& events, double now) override {
    PropertyChecks::OnEvents(events, now);
    tokens_.insert(tokens_.end(), events.tokens.size(), now);
  }

  // Returns the number of output tokens per second in [begin, begin + kWindow).
  double TokensPerSecond(double begin) const {
    return static_cast<double>(CountIn(tokens_, begin, begin + kWindow)) / kWindow;
  }
  int64_t NumPreemptions(double begin, double end) const {
    return CountIn(preemptions_, begin, end);
  }

 private:
  static int64_t CountIn(const std::vector<double>& times, double begin, double end) {
    return std::ranges::lower_bound(times, end) - std::ranges::lower_bound(times, begin);
  }

  std::vector<double> tokens_, preemptions_;
};

// Requests wait until the end of the second window, so both windows measure the throughput of full
// steps. With kFair, a few sequences are preempted for other tenants before the storm, too.
TEST(PreemptionStormTest, TheThroughputAfterAStormIsThatBeforeTheStorm) {
  const Load load = MakeStorm(1);
  for (const SchedulingKind scheduling : {SchedulingKind::kFcfs, SchedulingKind::kFair}) {
    for (const int32_t steps_in_flight : {1, 2}) {
      SCOPED_TRACE(testing::Message() << "policy " << static_cast<int>(scheduling) << ", "
                                      << steps_in_flight << " steps in flight");
      OwnScheduler scheduler(StormDevice(), load, steps_in_flight, scheduling);
      StormObserver observer(load, scheduler);
      const RunRecord run = RunLoad(StormDevice(), load, scheduler, {}, &observer);
      EXPECT_EQ(observer.Finish(), "");
      double storm_end = 0;
      for (size_t i = 0; i < load.requests.size(); ++i) {
        if (IsOfStorm(load.requests[i])) storm_end = std::max(storm_end, run.requests[i].end);
      }
      ASSERT_LE(storm_end + kWindow, kLastArrival);
      const int64_t num_preemptions = observer.NumPreemptions(kStormBegin, storm_end);
      EXPECT_GE(num_preemptions, 100);
      EXPECT_GE(static_cast<double>(num_preemptions) / (storm_end - kStormBegin),
                1.5 * static_cast<double>(observer.NumPreemptions(0, kStormBegin)) / kStormBegin);
      const double before = observer.TokensPerSecond(kStormBegin - kWindow);
      const double after = observer.TokensPerSecond(storm_end);
      EXPECT_LE(std::abs(after - before), 0.1 * before) << before << " and " << after;
    }
  }
}

}  // namespace
}  // namespace incipit::serving_sim
