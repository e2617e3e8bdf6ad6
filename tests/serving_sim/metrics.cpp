#include "tests/serving_sim/metrics.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace incipit::serving_sim {
namespace {

double NearestRank(const std::vector<double>& sorted, double quantile) {
  const double rank = std::ceil(quantile * static_cast<double>(sorted.size()));
  return sorted[static_cast<size_t>(std::max(rank, 1.0)) - 1];
}

bool MeetsTtft(const DeviceModel& device, const SimRequest& request, const RequestRecord& record) {
  if (record.first_token < 0) return false;
  if (request.ttft_deadline != kNever) return record.first_token <= request.ttft_deadline;
  const double target = kTtftFactor * AloneSeconds(device, request.num_prompt());
  return record.first_token - request.arrival <= target;
}

bool MeetsItl(const RequestRecord& record) {
  if (!record.is_complete) return false;
  if (record.gaps.empty()) return true;
  std::vector<double> ratios;
  for (const TokenGap& gap : record.gaps) ratios.push_back(gap.ratio);
  return PercentilesOf(ratios).p99 <= kItlFactor;
}

// A multiset of numbers that returns how many of its numbers are smaller than a limit (a Fenwick
// tree).
class Counter {
 public:
  explicit Counter(size_t size) : counts_(size + 1) {}
  void Add(size_t number) {
    for (size_t i = number + 1; i < counts_.size(); i += i & (~i + 1)) ++counts_[i];
  }
  int64_t CountBelow(size_t limit) const {
    int64_t count = 0;
    for (size_t i = limit; i > 0; i &= i - 1) count += counts_[i];
    return count;
  }

 private:
  std::vector<int64_t> counts_;
};

// The times to the first token and between tokens of several requests, in seconds.
struct Values {
  std::vector<double> ttft, itl;
  std::vector<double> refusal_times;  // see Metrics::refusal_time
  void Add(const SimRequest& request, const RequestRecord& record) {
    if (record.first_token >= 0) ttft.push_back(record.first_token - request.arrival);
    for (const TokenGap& gap : record.gaps) itl.push_back(gap.seconds);
    if (record.num_output == 0 && request.ttft_deadline != kNever) {
      refusal_times.push_back((record.end - request.arrival) /
                              (request.ttft_deadline - request.arrival));
    }
  }
};

void CountEnds(const SimRequest& request, const RequestRecord& record, Metrics& metrics) {
  if (record.num_output == 0) {
    ++metrics.refused;
  } else if (!record.is_complete) {
    ++metrics.cut;
  }
  if (record.first_token >= 0 && record.first_token > request.ttft_deadline) ++metrics.late;
  if (record.first_step >= 0) {
    metrics.wait_steps = std::max(metrics.wait_steps, record.first_step - record.arrival_step);
  }
}

}  // namespace

Percentiles PercentilesOf(std::vector<double>& values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  return {.p50 = NearestRank(values, 0.5), .p99 = NearestRank(values, 0.99)};
}

int64_t MaxOvertakes(const Load& load, const RunRecord& run) {
  // For each tenant: the first steps of the requests that arrived later than request `i`.
  std::map<uint64_t, Counter> first_steps;
  int64_t most = 0;
  for (size_t i = load.requests.size(); i-- > 0;) {
    if (run.requests[i].first_step < 0) continue;
    const auto step = static_cast<size_t>(run.requests[i].first_step);
    const auto num_steps = static_cast<size_t>(run.num_steps);
    Counter& counter = first_steps.try_emplace(load.requests[i].tenant, num_steps).first->second;
    most = std::max(most, counter.CountBelow(step));
    counter.Add(step);
  }
  return most;
}

Metrics Measure(const DeviceModel& device, const Load& load, const RunRecord& run) {
  Metrics metrics;
  Values all, focus;
  int64_t num_output = 0, num_good = 0, num_ttft = 0, num_itl = 0, num_focus = 0, focus_good = 0;
  for (size_t i = 0; i < load.requests.size(); ++i) {
    const SimRequest& request = load.requests[i];
    const RequestRecord& record = run.requests[i];
    const bool meets_ttft = MeetsTtft(device, request, record);
    const bool meets_itl = MeetsItl(record);
    num_ttft += meets_ttft;
    num_itl += meets_itl;
    num_good += meets_ttft && meets_itl;
    num_output += record.num_output;
    CountEnds(request, record, metrics);
    all.Add(request, record);
    if (!request.is_focus) continue;
    focus.Add(request, record);
    ++num_focus;
    focus_good += meets_ttft && meets_itl;
  }
  const auto num_requests = static_cast<double>(load.requests.size());
  metrics.refusal_time = PercentilesOf(all.refusal_times).p50;
  metrics.ttft = PercentilesOf(all.ttft);
  metrics.itl = PercentilesOf(all.itl);
  metrics.focus_ttft = PercentilesOf(focus.ttft);
  metrics.focus_itl = PercentilesOf(focus.itl);
  metrics.makespan = run.end_s;
  metrics.makespan_ratio = run.end_s / load.makespan_min;
  metrics.goodput = static_cast<double>(num_good) / run.end_s;
  metrics.met_ttft = static_cast<double>(num_ttft) / num_requests;
  metrics.met_itl = static_cast<double>(num_itl) / num_requests;
  if (num_focus > 0) metrics.focus_met = double(focus_good) / static_cast<double>(num_focus);
  metrics.throughput = static_cast<double>(num_output) / run.end_s;
  metrics.preemptions = run.num_preemptions;
  metrics.service = run.service.LargestDifference(kServiceWindow, run.end_s);
  metrics.overtakes = MaxOvertakes(load, run);
  metrics.duplicate =
      static_cast<double>(run.prompt_tokens) / static_cast<double>(load.distinct_prompt_tokens) - 1;
  metrics.step_tokens = static_cast<double>(run.step_tokens) /
                        static_cast<double>(std::max<int64_t>(run.num_steps, 1));
  return metrics;
}

}  // namespace incipit::serving_sim
