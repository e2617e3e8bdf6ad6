// Models of the time that a device needs for one step. The models take the place of a device in the
// simulation with time.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace incipit::serving_sim {

// The quantities of a step that determine its time in a DeviceModel.
struct StepWork {
  // Number of tokens that the step computes for prompts. After a preemption, the tokens that are
  // computed again are prompt tokens too.
  int64_t prompt_tokens = 0;
  int64_t decoding = 0;  // number of sequences that compute their last output token
  double positions = 0;  // number of cache positions that the step reads (ChunkPositions)
};

// The time of a step is linear in the fields of StepWork. All times are in seconds.
struct DeviceModel {
  std::string_view name;
  double step_s = 0;          // constant time of each step
  double prompt_token_s = 0;  // time for each prompt token
  double decoding_s = 0;      // time for each decoding sequence
  double position_s = 0;      // time for each cache position that is read
  // Number of consecutive prompt tokens that share one read of a cache position.
  int32_t tokens_per_read = 1;

  int32_t step_tokens_max = 0;  // maximum number of tokens in a step
  int32_t running_max = 0;      // maximum number of sequences that have cache blocks
  // SchedulerOptions::itl_target and ttft_target of Incipit's scheduler, in seconds; 0: the
  // default.
  double itl_target_s = 0, ttft_target_s = 0;
  // SchedulerOptions::itl_ratio. An operator whose goal is kItlFactor (metrics.h) chooses a
  // slightly smaller ratio.
  double itl_ratio = 1.9;
  int32_t num_blocks = 0;
  int32_t block_size = 16;  // tokens per cache block

  double horizon_s = 0;  // time in which the requests of a load arrive
  double think_s = 0;    // mean time between two turns of a conversation
};

// Returns the device models. The first model is the default.
std::span<const DeviceModel> DeviceModels();
// Returns the device model `name`, or nullptr.
const DeviceModel* FindDevice(std::string_view name);

double StepSeconds(const DeviceModel& device, const StepWork& work);

// Returns the number of positions that the tokens [first, first + num_tokens) of a sequence read.
// Each token attends to all positions up to its own. Each group of tokens_per_read tokens reads
// the positions once, up to the position of the last token of the group.
double ChunkPositions(const DeviceModel& device, int64_t first, int64_t num_tokens);

// Returns the work of a step that computes the tokens [first, first + num_tokens) of a prompt.
StepWork ChunkWork(const DeviceModel& device, int64_t first, int64_t num_tokens);

// Returns the time from the start of a prompt to its first output token on an idle device. The
// first `num_cached` tokens of the prompt are in the cache. The other tokens are computed in steps
// of step_tokens_max tokens. REQUIRES: `num_cached` < `num_prompt`.
double AloneSeconds(const DeviceModel& device, int64_t num_prompt, int64_t num_cached = 0);

// Returns the time of a step in which `num_sequences` sequences with `num_positions` tokens in
// total compute one output token each.
double DecodeSeconds(const DeviceModel& device, int64_t num_sequences, double num_positions);

}  // namespace incipit::serving_sim
