// The times of arrival of the loads, and the capacity of a device.
#include "tests/serving_sim/load.h"

#include <algorithm>
#include <cmath>

#include "absl/container/flat_hash_set.h"
#include "base/status.h"

namespace incipit::serving_sim {
namespace {

// Number of requests in a sample load. MakeLoad measures the sample to compute the number of
// requests in the whole load.
constexpr size_t kSampleRequests = 400;
constexpr size_t kRequestsMin = 400, kRequestsMax = 40'000;
constexpr double kOverloadUtilization = 1.5;

// The set of blocks in a cache that never evicts a block.
class EndlessCache {
 public:
  explicit EndlessCache(const DeviceModel& device)
      : block_size_(static_cast<size_t>(device.block_size)) {}

  // Returns the number of leading prompt tokens of `request` whose full blocks are in the cache,
  // and adds the blocks of the prompt and the output. At least one prompt token is not cached, as
  // in KvCacheManager.
  int32_t Add(const SimRequest& request) {
    const size_t num_prompt = request.prompt.size();
    const size_t num_tokens = num_prompt + static_cast<size_t>(request.output_tokens) - 1;
    size_t num_cached = 0;
    bool is_cached = true;
    uint64_t hash = 0;
    for (size_t i = 0; i < num_tokens; ++i) {
      const TokenId token =
          i < num_prompt ? request.prompt[i]
                         : TextToken(request.output_text, static_cast<int64_t>(i - num_prompt));
      hash = Mix(hash, static_cast<uint64_t>(token));
      if ((i + 1) % block_size_ != 0) continue;
      is_cached = !blocks_.insert(hash).second && is_cached;
      if (is_cached && i + 1 < num_prompt) num_cached = i + 1;
    }
    return static_cast<int32_t>(num_cached);
  }

 private:
  size_t block_size_;
  // For each block, a hash of the block and all earlier tokens.
  absl::flat_hash_set<uint64_t> blocks_;
};

// Returns the time to compute all tokens of a request, without the constant time of steps.
double TokenSeconds(const DeviceModel& device, const SimRequest& request, int32_t num_cached) {
  double seconds = 0;
  for (int32_t first = num_cached; first < request.num_prompt(); first += device.step_tokens_max) {
    const int32_t num_tokens = std::min(device.step_tokens_max, request.num_prompt() - first);
    seconds += StepSeconds(device, ChunkWork(device, first, num_tokens)) - device.step_s;
  }
  const double num_decoded = request.output_tokens - 1;
  const double mean_length = request.num_prompt() + (num_decoded + 1) / 2;
  return seconds + num_decoded * (device.decoding_s + device.position_s * mean_length);
}

// Returns the time that a request needs on an idle device.
double ChainSeconds(const DeviceModel& device, const SimRequest& request, int32_t num_cached) {
  const double num_steps =
      std::ceil(double(request.num_prompt() - num_cached) / device.step_tokens_max) +
      request.output_tokens - 1;
  return TokenSeconds(device, request, num_cached) + num_steps * device.step_s;
}

void SetPoissonArrivals(double rate, Random& random, std::vector<SimRequest>& requests) {
  double now = 0;
  for (SimRequest& request : requests) request.arrival = now += random.Exponential(1 / rate);
}

// Sets random times of arrival. The horizon consists of ten periods. In the first fifth of each
// period, the requests per second are 3 times `rate`, and then half of `rate`.
void SetBurstyArrivals(double rate, double horizon, Random& random,
                       std::vector<SimRequest>& requests) {
  const double period = horizon / 10;
  double now = 0;
  for (SimRequest& request : requests) {
    // Integral of the rate of requests over the time until the next request.
    double left = random.Exponential(1);
    while (true) {
      const double phase = std::fmod(now, period) / period;
      const bool is_burst = phase < 0.2;
      const double change = now + ((is_burst ? 0.2 : 1.0) - phase) * period + 1e-9;
      const double current = rate * (is_burst ? 3 : 0.5);
      if (left < (change - now) * current) {
        now += left / current;
        break;
      }
      left -= (change - now) * current;
      now = change;
    }
    request.arrival = now;
  }
}

// Sets the times of arrival. The first kHeavyBurstRequests requests belong to the heavy tenant and
// arrive together.
void SetHeavyBurst(double horizon, Random& random, std::vector<SimRequest>& requests) {
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].arrival = i < kHeavyBurstRequests ? 0.1 * horizon : random.Uniform() * horizon;
  }
}

// Sets the times of arrival of conversations, which begin at random times. Between two requests of
// a conversation, the user thinks for a random time.
void SetTurnArrivals(const DeviceModel& device, double rate, Random& random,
                     std::vector<SimRequest>& requests) {
  double begin = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    if (i % kConversationTurns == 0) {
      requests[i].arrival = begin += random.Exponential(kConversationTurns / rate);
    } else {
      requests[i].arrival =
          requests[i - 1].arrival + device.think_s / 2 + random.Exponential(device.think_s / 2);
    }
  }
}

void SetArrivals(const DeviceModel& device, const LoadOptions& options, double horizon,
                 Load& load) {
  Random random(Mix(options.seed, 77));
  const double rate = load.utilization * load.capacity;
  switch (options.kind) {
    case LoadKind::kBursty:
    case LoadKind::kDeadline:
      SetBurstyArrivals(rate, horizon, random, load.requests);
      break;
    case LoadKind::kHeavyBurst:
      SetHeavyBurst(static_cast<double>(load.requests.size()) / rate, random, load.requests);
      break;
    case LoadKind::kMultiTurn:
      SetTurnArrivals(device, rate, random, load.requests);
      break;
    case LoadKind::kMooncake: {
      const double log_time = load.requests.back().arrival - load.requests.front().arrival;
      const double scale = static_cast<double>(load.requests.size()) / rate / log_time;
      for (SimRequest& request : load.requests) request.arrival *= scale;
      break;
    }
    default:
      SetPoissonArrivals(rate, random, load.requests);
  }
  for (SimRequest& request : load.requests) request.ttft_deadline += request.arrival;
}

}  // namespace

void MeasureLoad(const DeviceModel& device, Load& load) {
  EndlessCache cache(device);
  double token_s = 0, chain_s = 0;
  int64_t num_computed = 0, num_decoded = 0, num_positions = 0;
  for (const SimRequest& request : load.requests) {
    const int32_t num_cached = cache.Add(request);
    num_computed += request.num_prompt() - num_cached;
    num_decoded += request.output_tokens - 1;
    num_positions += request.num_prompt() + request.output_tokens;
    token_s += TokenSeconds(device, request, num_cached);
    chain_s = std::max(chain_s, request.arrival + ChainSeconds(device, request, num_cached));
  }
  const auto num_requests = static_cast<double>(load.requests.size());
  const double num_fit = double(device.num_blocks) * device.block_size * num_requests /
                         static_cast<double>(num_positions);
  const double num_running = std::clamp<double>(num_fit, 1, device.running_max);
  const double full_steps =
      static_cast<double>(num_computed + num_decoded) / device.step_tokens_max;
  const double num_steps = std::max(static_cast<double>(num_decoded) / num_running, full_steps);
  load.capacity = num_requests / (token_s + num_steps * device.step_s);
  load.distinct_prompt_tokens = num_computed;
  load.makespan_min = std::max(token_s + full_steps * device.step_s, chain_s);
}

absl::StatusOr<Load> MakeLoad(const DeviceModel& device, const LoadOptions& options) {
  const double horizon = options.horizon_s > 0 ? options.horizon_s : device.horizon_s;
  const bool is_overload = options.kind == LoadKind::kOverload;
  Load load = {.kind = options.kind,
               .utilization = is_overload ? kOverloadUtilization : options.utilization};
  if (options.kind == LoadKind::kMooncake) {
    const int64_t tokens_max = int64_t{device.num_blocks} * device.block_size;
    INCIPIT_ASSIGN_OR_RETURN(load.requests, ReadMooncake(options.trace, options.trace_requests_max,
                                                         tokens_max, options.trace_hash_id_tokens));
  } else {
    AddRequests(device, options.kind, kSampleRequests, options.seed, load.requests);
    MeasureLoad(device, load);
    const double wanted = load.utilization * load.capacity * horizon;
    const size_t least =
        options.kind == LoadKind::kHeavyBurst ? kHeavyBurstRequests + kRequestsMin : kRequestsMin;
    const auto num_requests =
        std::clamp(static_cast<size_t>(wanted), least, std::max(least, kRequestsMax));
    load.requests.clear();
    AddRequests(device, options.kind, num_requests, options.seed, load.requests);
  }
  MeasureLoad(device, load);
  SetArrivals(device, options, horizon, load);
  std::ranges::stable_sort(load.requests, {}, &SimRequest::arrival);
  // Measures the load again, now in the order of arrival, but keeps the capacity. The capacity was
  // measured in the order in which AddRequests made the requests.
  const double capacity = load.capacity;
  MeasureLoad(device, load);
  load.capacity = capacity;
  return load;
}

}  // namespace incipit::serving_sim
