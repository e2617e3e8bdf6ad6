// Runs a model's steps without a server and takes their time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/bench/bench_model_limits.h"
#include "engine/transformer_runner.h"
#include "kernels/cpu/cpu_options.h"
#include "kernels/machine_rates.h"
#include "transformer/model.h"

namespace incipit {

struct BenchModelPlan {
  std::string folder;
  CpuOptions cpu;
  WeightFormat weights = WeightFormat::kAsStored;
  std::optional<DType> kv_dtype;  // none: as the server has it
  int32_t prompt = 512;           // tokens whose prefill is measured
  int32_t decode_prompt = 128;    // tokens of each sequence that are there before decoding
  int32_t generate = 64;          // steps of decoding
  std::vector<int32_t> sequences = {1, 8, 32};
  int32_t step_tokens = 512;  // at most, of a step of prefill
  int32_t repeat = 5;
};

// One measurement.
struct ModelSpeed {
  int32_t num_sequences = 0;
  int64_t num_tokens = 0;  // in `seconds`
  double seconds = 0;      // the median of the plan's repeats
  std::vector<OperationWork> steps;
  OperationSeconds operation_seconds{};  // means of the repeats
};

struct BenchModelResult {
  ModelTypes types;
  MachineRates machine;
  std::vector<ModelSpeed> prefill, decode;
};

// Loads and measures. `report` is told what is being measured. OUT_OF_RANGE names what of the
// plan the model or the machine does not take.
absl::StatusOr<BenchModelResult> BenchModel(const BenchModelPlan& plan,
                                            const std::function<void(std::string_view)>& report);

}  // namespace incipit
