#include "cli/bench/bench_model_report.h"

#include <fmt/format.h>

#include <cmath>
#include <vector>

namespace incipit {
namespace {

using nlohmann::ordered_json;

// The figures that the report shows for one ModelSpeed (a measurement of prefill or decode).
struct SpeedFigures {
  double tokens_per_s = 0, gflops = 0, gbytes_per_s = 0, fraction_of_limit = 0;
};

SpeedFigures FiguresOf(const ModelSpeed& speed, const BenchModelResult& result) {
  ModelWork sum;
  double least_seconds = 0;
  for (const OperationWork& step : speed.steps) {
    const ModelWork work = SumOf(step);
    sum += work;
    least_seconds += LeastSeconds(work, result.types.weights, result.machine);
  }
  return {.tokens_per_s = static_cast<double>(speed.num_tokens) / speed.seconds,
          .gflops = sum.operations / speed.seconds * 1e-9,
          .gbytes_per_s = sum.bytes / speed.seconds * 1e-9,
          .fraction_of_limit = least_seconds / speed.seconds};
}

// The figures that the report shows for one operation, such as attention. `share` is the fraction
// of the measured time, and `fraction_of_limit` is the minimum time of the operation divided by its
// measured time.
struct OperationFigures {
  std::string_view name;
  double share = 0, fraction_of_limit = 0;
};

std::vector<OperationFigures> ProfileOf(const ModelSpeed& speed, const BenchModelResult& result) {
  double whole = 0;
  for (const double seconds : speed.operation_seconds) whole += seconds;
  std::vector<OperationFigures> profile;
  for (size_t i = 0; i < kNumStepOperations; ++i) {
    const double seconds = speed.operation_seconds[i];
    if (seconds <= 0) continue;
    const auto operation = static_cast<StepOperation>(i);
    // The minimum time of an operation depends on the type of the numbers that the operation reads.
    // Attention reads keys and values. All other operations read weights.
    const bool is_attention = operation == StepOperation::kAttention;
    const MatrixType type = is_attention ? MatrixTypeOf(result.types.kv) : result.types.weights;
    double least_seconds = 0;
    for (const OperationWork& step : speed.steps) {
      least_seconds += LeastSeconds(step[i], type, result.machine);
    }
    profile.push_back({NameOf(operation), seconds / whole, least_seconds / seconds});
  }
  return profile;
}

// Rounds `value` to 4 decimal places.
ordered_json Number(double value) { return std::round(value * 1e4) / 1e4; }

ordered_json Rate(double per_second) {
  return per_second > 0 ? Number(per_second * 1e-9) : ordered_json();
}

ordered_json ProfileJson(const ModelSpeed& speed, const BenchModelResult& result) {
  ordered_json array = ordered_json::array();
  for (const OperationFigures& figures : ProfileOf(speed, result)) {
    array.push_back({{"operation", figures.name},
                     {"share", Number(figures.share)},
                     {"fraction_of_limit", Number(figures.fraction_of_limit)}});
  }
  return array;
}

ordered_json SpeedsJson(const std::vector<ModelSpeed>& speeds, const BenchModelResult& result,
                        bool has_profile) {
  ordered_json array = ordered_json::array();
  for (const ModelSpeed& speed : speeds) {
    const SpeedFigures figures = FiguresOf(speed, result);
    ordered_json row = {{"sequences", speed.num_sequences},
                        {"tokens", speed.num_tokens},
                        {"tokens_per_s", Number(figures.tokens_per_s)},
                        {"gflops", Number(figures.gflops)},
                        {"gbytes_per_s", Number(figures.gbytes_per_s)},
                        {"fraction_of_limit", Number(figures.fraction_of_limit)}};
    if (has_profile) row["profile"] = ProfileJson(speed, result);
    array.push_back(std::move(row));
  }
  return array;
}

std::string Rows(std::string_view name, const std::vector<ModelSpeed>& speeds,
                 const BenchModelResult& result, bool has_profile) {
  std::string text;
  for (const ModelSpeed& speed : speeds) {
    const SpeedFigures figures = FiguresOf(speed, result);
    text += fmt::format("{:<10}{:>10}{:>10}{:>12.1f}{:>12.1f}{:>12.2f}{:>10.0f} %\n", name,
                        speed.num_sequences, speed.num_tokens, figures.tokens_per_s, figures.gflops,
                        figures.gbytes_per_s, 100 * figures.fraction_of_limit);
    if (!has_profile) continue;
    for (const OperationFigures& operation : ProfileOf(speed, result)) {
      text += fmt::format(
          "  {:<10}{:>6.1f} % of the time of a step, {:>5.0f} % of the highest possible speed\n",
          operation.name, 100 * operation.share, 100 * operation.fraction_of_limit);
    }
  }
  return text;
}

std::string RateText(std::string_view type, double per_second) {
  return per_second > 0 ? fmt::format(", {} {:.1f} Gop/s", type, per_second * 1e-9) : "";
}

}  // namespace

ordered_json ToJson(const BenchModelResult& result, bool has_profile) {
  const MachineRates& machine = result.machine;
  return {{"weights", NameOf(result.types.weights)},
          {"kv_dtype", NameOf(result.types.kv)},
          {"prefill", SpeedsJson(result.prefill, result, has_profile)},
          {"decode", SpeedsJson(result.decode, result, has_profile)},
          {"machine",
           {{"cpu", machine.cpu},
            {"isa", machine.isa},
            {"threads", machine.num_threads},
            {"f32_gflops", Rate(machine.f32)},
            {"bf16_gflops", Rate(machine.bf16)},
            {"int8_gops", Rate(machine.int8)},
            {"read_gbytes_per_s", Rate(machine.read_bytes)}}}};
}

std::string Describe(const BenchModelResult& result, bool has_profile) {
  const MachineRates& machine = result.machine;
  std::string text = fmt::format(
      "{}, instruction set {}, {} threads\n"
      "highest measured rates: f32 {:.1f} GFLOP/s{}{}, memory reads {:.1f} GB/s\n",
      machine.cpu.empty() ? "CPU" : machine.cpu, machine.isa, machine.num_threads,
      machine.f32 * 1e-9, RateText("bf16", machine.bf16), RateText("int8", machine.int8),
      machine.read_bytes * 1e-9);
  text +=
      fmt::format("weights {}, keys and values {}\n\n{:<10}{:>10}{:>10}{:>12}{:>12}{:>12}{:>12}\n",
                  NameOf(result.types.weights), NameOf(result.types.kv), "", "sequences", "tokens",
                  "tokens/s", "GFLOP/s", "GB/s", "of limit");
  text += Rows("prefill", result.prefill, result, has_profile);
  text += Rows("decode", result.decode, result, has_profile);
  return text;
}

}  // namespace incipit
