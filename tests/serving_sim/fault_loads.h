// Loads for the tests with faults: requests with priorities, deadlines and several outputs, and
// loads in which one tenant may hold up others.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/serving_sim/device_model.h"
#include "tests/serving_sim/load.h"

namespace incipit::serving_sim {

// A device with short steps, so that a few seconds contain many requests. The cache holds 19,200
// tokens, fewer than the running sequences of most loads need.
inline constexpr DeviceModel kFastDevice = {.name = "fast",
                                            .step_s = 2e-3,
                                            .prompt_token_s = 20e-6,
                                            .decoding_s = 20e-6,
                                            .position_s = 0.01e-6,
                                            .tokens_per_read = 16,
                                            .step_tokens_max = 256,
                                            .running_max = 32,
                                            .num_blocks = 1200,
                                            .horizon_s = 20,
                                            .think_s = 1};

// Gives a part of the requests of `load` priorities, deadlines and several outputs. Also gives all
// requests one of three tenants, unless `load` has several tenants.
void AddVariety(const DeviceModel& device, uint64_t seed, Load& load);

// Requests of one tenant that arrive at random times (a Poisson process).
struct RequestStream {
  uint64_t tenant = 1;
  double rate = 1;  // requests per second
  int32_t prompt_min = 1, prompt_max = 1;
  int32_t output_min = 1, output_max = 1;
  int32_t num_shared = 0;  // first prompt tokens that are equal in all requests of the stream
};

// Returns a load that consists of `streams`, which last `horizon_s` seconds.
Load MixStreams(const DeviceModel& device, const std::vector<RequestStream>& streams,
                double horizon_s, uint64_t seed);

// Returns a load in which 48 requests of four tenants arrive together and share the first
// `num_shared` prompt tokens. A request of the lowest priority arrives a little earlier and begins
// to compute these tokens. Meanwhile, other sequences decode.
Load MakeBurst(const DeviceModel& device, int32_t num_shared, uint64_t seed);

}  // namespace incipit::serving_sim
