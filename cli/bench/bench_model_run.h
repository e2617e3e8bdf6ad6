// Measures the time of prefill and decode of a model, without a server.
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
  // Element type of keys and values; absent: the type that `incipit serve` uses by default.
  std::optional<DType> kv_dtype;
  int32_t prompt = 512;         // number of prompt tokens in the prefill measurement
  int32_t decode_prompt = 128;  // number of tokens of each sequence before the first decode step
  int32_t generate = 64;        // number of decode steps in each run of a decode measurement
  std::vector<int32_t> sequences = {1, 8, 32};
  int32_t step_tokens = 512;  // maximum number of tokens in a prefill step
  int32_t repeat = 5;         // number of times that each measurement is repeated
};

// The result of one measurement of prefill or decode.
struct ModelSpeed {
  int32_t num_sequences = 0;
  int64_t num_tokens = 0;  // number of tokens computed in one run of the measurement
  double seconds = 0;      // median duration of the runs of the measurement, in seconds
  // steps[i]: minimum work (arithmetic operations and bytes read) of step (batch) i in one run of
  // the measurement.
  std::vector<OperationWork> steps;
  // Time of each operation (such as attention) per run, averaged over all runs.
  OperationSeconds operation_seconds{};
};

struct BenchModelResult {
  ModelTypes types;
  MachineRates machine;
  std::vector<ModelSpeed> prefill, decode;
};

// Loads the model and runs all measurements of `plan`. Calls `report` with the name of each
// measurement before its start. Returns OUT_OF_RANGE if the model or the machine does not support a
// value of `plan`.
absl::StatusOr<BenchModelResult> BenchModel(const BenchModelPlan& plan,
                                            const std::function<void(std::string_view)>& report);

}  // namespace incipit
