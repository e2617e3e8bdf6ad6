#include "tests/serving_sim/device_model.h"

#include <algorithm>
#include <array>

namespace incipit::serving_sim {
namespace {

// step_tokens_max is the value that the server chooses on such a device (engine/step_budget.h): the
// largest power of two, at most 2,048, whose step takes less than 0.5 s. running_max is the default
// of --running-max.
//
// h100_8b: one H100 and a model with 8 billion parameters, 32 layers and 8 key-value heads of 128
// elements: 128 KiB of keys and values per token. 426,000 tokens need 52 GiB, which is 0.9 times
// the memory without the weights. The attention kernel reads a position once for 64 tokens.
//
// cpu_0.5b: two cores and a model with 0.5 billion parameters: 12 KiB per token, 4 GiB of cache.
// Attention is bound by computation, so each token pays for each position.
constexpr std::array kModels = {
    DeviceModel{.name = "h100_8b",
                .step_s = 6.8e-3,
                .prompt_token_s = 35e-6,
                .decoding_s = 5e-6,
                .position_s = 0.05e-6,
                .tokens_per_read = 64,
                .step_tokens_max = 2048,
                .running_max = 128,
                .num_blocks = 26'624,
                .horizon_s = 120,
                .think_s = 4},
    DeviceModel{.name = "cpu_0.5b",
                .step_s = 30e-3,
                .prompt_token_s = 2.6e-3,
                .decoding_s = 3e-3,
                .position_s = 0.7e-6,
                .tokens_per_read = 1,
                .step_tokens_max = 128,
                .running_max = 128,
                .num_blocks = 21'845,
                .horizon_s = 3600,
                .think_s = 60},
};

}  // namespace

std::span<const DeviceModel> DeviceModels() { return kModels; }

const DeviceModel* FindDevice(std::string_view name) {
  const auto found = std::ranges::find(kModels, name, &DeviceModel::name);
  return found == kModels.end() ? nullptr : &*found;
}

double StepSeconds(const DeviceModel& device, const StepWork& work) {
  return device.step_s + device.prompt_token_s * static_cast<double>(work.prompt_tokens) +
         device.decoding_s * static_cast<double>(work.decoding) +
         device.position_s * work.positions;
}

double ChunkPositions(const DeviceModel& device, int64_t first, int64_t num_tokens) {
  const int64_t size = device.tokens_per_read;
  const int64_t num_groups = num_tokens / size;
  // Group number i (from 1 on) of `size` tokens reads first + i * size positions.
  int64_t positions = num_groups * first + size * num_groups * (num_groups + 1) / 2;
  if (num_tokens % size != 0) positions += first + num_tokens;
  return static_cast<double>(positions);
}

StepWork ChunkWork(const DeviceModel& device, int64_t first, int64_t num_tokens) {
  return {.prompt_tokens = num_tokens, .positions = ChunkPositions(device, first, num_tokens)};
}

double AloneSeconds(const DeviceModel& device, int64_t num_prompt, int64_t num_cached) {
  double seconds = 0;
  for (int64_t first = num_cached; first < num_prompt; first += device.step_tokens_max) {
    const int64_t num_tokens = std::min<int64_t>(device.step_tokens_max, num_prompt - first);
    seconds += StepSeconds(device, ChunkWork(device, first, num_tokens));
  }
  return seconds;
}

double DecodeSeconds(const DeviceModel& device, int64_t num_sequences, double num_positions) {
  return StepSeconds(device, {.decoding = num_sequences, .positions = num_positions});
}

}  // namespace incipit::serving_sim
