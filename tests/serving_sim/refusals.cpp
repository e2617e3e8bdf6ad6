#include "tests/serving_sim/refusals.h"

#include <algorithm>
#include <vector>

namespace incipit::serving_sim {
namespace {

// Largest factor by which WronglyRefused multiplies the time to the deadline.
constexpr double kFactorMax = 64;

}  // namespace

double WronglyRefused(const DeviceModel& device, const Load& load, SchedulerKind kind,
                      int32_t steps_in_flight, const RunOptions& options, const RunRecord& run,
                      int32_t sample_max) {
  std::vector<size_t> refused;
  size_t num_deadlines = 0;
  for (size_t i = 0; i < load.requests.size(); ++i) {
    if (load.requests[i].ttft_deadline == kNever) continue;
    ++num_deadlines;
    if (run.requests[i].num_output == 0) refused.push_back(i);
  }
  const size_t num_sampled = std::min(refused.size(), static_cast<size_t>(sample_max));
  if (num_sampled == 0) return 0;
  Load changed = load;
  size_t num_wrong = 0;
  for (size_t i = 0; i < num_sampled; ++i) {
    const size_t index = refused[i * refused.size() / num_sampled];
    SimRequest& request = changed.requests[index];
    const double deadline = request.ttft_deadline;
    double first_token = -1;
    for (double factor = 2; factor <= kFactorMax && first_token < 0; factor *= 2) {
      request.ttft_deadline = request.arrival + factor * (deadline - request.arrival);
      const auto scheduler = MakeScheduler(kind, device, changed, steps_in_flight);
      first_token = RunLoad(device, changed, *scheduler, options).requests[index].first_token;
    }
    request.ttft_deadline = deadline;
    num_wrong += first_token >= 0 && first_token <= deadline;
  }
  return static_cast<double>(num_wrong) / static_cast<double>(num_sampled) *
         static_cast<double>(refused.size()) / static_cast<double>(num_deadlines);
}

}  // namespace incipit::serving_sim
