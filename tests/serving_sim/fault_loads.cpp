#include "tests/serving_sim/fault_loads.h"

#include <algorithm>
#include <set>
#include <utility>

namespace incipit::serving_sim {
namespace {

// Returns a request whose first `num_shared` prompt tokens are those of the text `shared`.
SimRequest MixedRequest(uint64_t shared, int32_t num_shared, uint64_t text, int32_t num_prompt) {
  SimRequest request;
  for (int32_t i = 0; i < num_prompt; ++i) {
    request.prompt.push_back(TextToken(i < num_shared ? shared : text, i));
  }
  request.output_text = Mix(text, 1);
  return request;
}

}  // namespace

void AddVariety(const DeviceModel& device, uint64_t seed, Load& load) {
  Random random(Mix(seed, 5));
  std::set<uint64_t> tenants;
  for (const SimRequest& request : load.requests) tenants.insert(request.tenant);
  for (SimRequest& request : load.requests) {
    if (tenants.size() == 1) request.tenant = static_cast<uint64_t>(random.Pick(1, 3));
    if (random.Pick(0, 3) == 0) request.priority = random.Pick(-1, 2);
    if (random.Pick(0, 3) == 0) {
      request.num_choices = random.Pick(2, 4);
      request.output_tokens = (request.output_tokens + 2) / 3;
    }
    const double alone = AloneSeconds(device, request.num_prompt());
    if (random.Pick(0, 9) == 0) {
      request.ttft_deadline = request.arrival + alone * random.Pick(2, 80);
    }
    if (random.Pick(0, 9) == 0) request.deadline = request.arrival + alone * random.Pick(2, 400);
  }
}

Load MixStreams(const DeviceModel& device, const std::vector<RequestStream>& streams,
                double horizon_s, uint64_t seed) {
  Load load;
  for (size_t i = 0; i < streams.size(); ++i) {
    const RequestStream& stream = streams[i];
    Random random(Mix(seed, i));
    for (double now = random.Exponential(1 / stream.rate); now < horizon_s;
         now += random.Exponential(1 / stream.rate)) {
      SimRequest request = MixedRequest(Mix(seed, i), stream.num_shared, random.Bits(),
                                        random.Pick(stream.prompt_min, stream.prompt_max));
      request.arrival = now;
      request.tenant = stream.tenant;
      request.output_tokens = random.Pick(stream.output_min, stream.output_max);
      load.requests.push_back(std::move(request));
    }
  }
  std::ranges::stable_sort(load.requests, {}, &SimRequest::arrival);
  MeasureLoad(device, load);
  return load;
}

Load MakeBurst(const DeviceModel& device, int32_t num_shared, uint64_t seed) {
  constexpr int32_t kDecoding = 12, kInBurst = 48;
  Load load;
  Random random(seed);
  for (int32_t i = 0; i < kDecoding; ++i) {
    SimRequest request = MixedRequest(0, 0, random.Bits(), 20);
    request.tenant = static_cast<uint64_t>(random.Pick(1, 4));
    request.output_tokens = 60;
    load.requests.push_back(std::move(request));
  }
  for (int32_t i = 0; i < kInBurst; ++i) {
    const int32_t num_prompt = num_shared + random.Pick(1, 40);
    SimRequest request = MixedRequest(seed, num_shared, random.Bits(), num_prompt);
    request.arrival = i == 0 ? 0.03 : 0.05;
    request.tenant = static_cast<uint64_t>(random.Pick(1, 4));
    request.priority = i == 0 ? -1 : random.Pick(0, 2);
    request.num_choices = random.Pick(0, 3) == 0 ? 3 : 1;
    request.output_tokens = random.Pick(1, 20);
    load.requests.push_back(std::move(request));
  }
  MeasureLoad(device, load);
  return load;
}

}  // namespace incipit::serving_sim
