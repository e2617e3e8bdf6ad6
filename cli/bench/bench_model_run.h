// Runs the steps of a model (batches of prefill or decode) without a server and measures their
// time.
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
  // Type of keys and values; absent: the type that the server would use.
  std::optional<DType> kv_dtype;
  int32_t prompt = 512;         // number of prompt tokens in the prefill measurement
  int32_t decode_prompt = 128;  // number of tokens of each sequence before the first decode step
  int32_t generate = 64;        // number of decode steps in each run
  std::vector<int32_t> sequences = {1, 8, 32};
  int32_t step_tokens = 512;  // maximum number of tokens in a prefill step
  int32_t repeat = 5;         // number of runs of each measurement
};

// The result of one measurement of prefill or decode.
struct ModelSpeed {
  int32_t num_sequences = 0;
  int64_t num_tokens = 0;                // number of tokens that a run computes
  double seconds = 0;                    // median duration of a run
  std::vector<OperationWork> steps;      // minimum work of each step of a run
  OperationSeconds operation_seconds{};  // mean time of each operation in a run, over all runs
};

struct BenchModelResult {
  ModelTypes types;
  MachineRates machine;
  std::vector<ModelSpeed> prefill, decode;
};

// Loads the model and runs all measurements of `plan`. Calls `report` with the name of each
// measurement before the measurement starts. Returns OUT_OF_RANGE if the model or the machine does
// not support a value of `plan`. The message of the error names the value.
absl::StatusOr<BenchModelResult> BenchModel(const BenchModelPlan& plan,
                                            const std::function<void(std::string_view)>& report);

}  // namespace incipit
