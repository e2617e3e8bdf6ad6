// serving_simulation: runs loads on schedulers and a device model, in simulated time, and prints
// latencies, goodput and fairness (docs/testing.md).
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/flags.h"
#include "base/status.h"
#include "tests/serving_sim/refusals.h"
#include "tests/serving_sim/report.h"
#include "tests/serving_sim/run.h"

namespace incipit::serving_sim {
namespace {

struct ProgramOptions {
  std::string device = "h100_8b", load = "all", utilization = "0.5,0.7,0.95", scheduler = "all";
  std::string trace = INCIPIT_SOURCE_DIR "/tests/data/traces/mooncake_synthetic_trace.jsonl";
  int32_t trace_requests = 4000;
  int32_t trace_hash_id_tokens = 32;
  int64_t seed = 1;
  bool json = false;
  int32_t steps_in_flight = 1;
  int32_t refusals = 0;
  double noise = 0, horizon = 0;
  // Maximum number of tokens in a step, and of running sequences; 0: the value of the device model.
  int32_t step_tokens = 0, running_max = 0;
  // Flags --itl-target and --ttft-target of Incipit's scheduler, in seconds; 0: the default.
  double itl_target = 0, ttft_target = 0;
  double itl_ratio = DeviceModel{}.itl_ratio;  // flag --itl-ratio of Incipit's scheduler
};

void BindFlags(ProgramOptions& options, Flags& flags) {
  flags.String({"device", "NAME", "Device model: h100_8b or cpu_0.5b."}, options.device);
  flags.String({"load", "NAMES", "Names of loads, separated by commas; all: every load."},
               options.load);
  flags.String(
      {"utilization", "U,...", "Request rates, each divided by the capacity of the device."},
      options.utilization);
  flags.String(
      {"scheduler", "NAMES", "Names of schedulers, separated by commas; all: every scheduler."},
      options.scheduler);
  flags.Integer({"seed", "N", "Random seed of the requests and of the noise in step times."},
                options.seed, {0});
  flags.Switch({"json", "", "Prints one line of JSON for each run."}, options.json);
  flags.Integer(
      {"steps-in-flight", "N", "Maximum number of steps in flight in Incipit's scheduler."},
      options.steps_in_flight, {1, 2});
  flags.Real({"noise", "X", "Standard deviation of the logarithm of step times; 0: no noise."},
             options.noise, {0, 2});
  flags.Real({"horizon", "S", "Time in which requests arrive, in seconds; 0: value of the device."},
             options.horizon, {0, 1e6});
  flags.Integer({"step-tokens", "N", "Maximum number of tokens in a step; 0: value of the device."},
                options.step_tokens, {0, 1 << 20});
  flags.Integer(
      {"running-max", "N", "Maximum number of running sequences; 0: value of the device."},
      options.running_max, {0, 4096});
  flags.Real({"itl-target", "S", "--itl-target of Incipit's scheduler, in seconds; 0: default."},
             options.itl_target, {0, 600});
  flags.Real({"itl-ratio", "X", "--itl-ratio of Incipit's scheduler."}, options.itl_ratio,
             {1, 1000});
  flags.Real({"ttft-target", "S", "--ttft-target of Incipit's scheduler, in seconds; 0: default."},
             options.ttft_target, {0, 3600});
  flags.Integer(
      {"refusals", "N", "Number of refused requests to examine; the load runs again for each one."},
      options.refusals, {0, 10'000});
  flags.String({"trace", "FILE", "Log of requests that the load mooncake reads."}, options.trace);
  flags.Integer({"trace-requests", "N", "Maximum number of requests that are read from --trace."},
                options.trace_requests, {2, 1'000'000});
  flags.Integer({"trace-hash-id-tokens", "N",
                 "Tokens of each hash id in --trace. All lengths are multiplied by N / 512."},
                options.trace_hash_id_tokens, {1, kMooncakeBlockTokens});
}

std::vector<std::string_view> SplitAtCommas(std::string_view text) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

// Returns the values whose names `text` lists, separated by commas.
template <typename Names>
auto ParseNames(std::string_view flag, std::string_view text, const Names& names)
    -> absl::StatusOr<std::vector<decltype(names.begin()->value)>> {
  std::vector<decltype(names.begin()->value)> values;
  if (text == "all") {
    for (const auto& name : names) values.push_back(name.value);
    return values;
  }
  for (const std::string_view name : SplitAtCommas(text)) {
    const auto value = ValueIn(names, name);
    if (!value)
      return absl::InvalidArgumentError(fmt::format("--{}: no such name: {}", flag, name));
    values.push_back(*value);
  }
  return values;
}

absl::StatusOr<std::vector<double>> ParseUtilizations(std::string_view text) {
  std::vector<double> values;
  for (const std::string_view part : SplitAtCommas(text)) {
    double value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc() || end != part.data() + part.size() || value <= 0 || value > 10) {
      return absl::InvalidArgumentError(
          fmt::format("--utilization: {} is not a number above 0 and at most 10", part));
    }
    values.push_back(value);
  }
  return values;
}

RunResult RunOne(const DeviceModel& device, const Load& load, SchedulerKind kind,
                 const ProgramOptions& options) {
  const std::clock_t begin = std::clock();
  const auto scheduler = MakeScheduler(kind, device, load, options.steps_in_flight);
  const RunOptions run_options = {.noise = options.noise,
                                  .seed = static_cast<uint64_t>(options.seed)};
  const RunRecord run = RunLoad(device, load, *scheduler, run_options);
  Metrics metrics = Measure(device, load, run);
  if (options.refusals > 0) {
    metrics.wrongly_refused = WronglyRefused(device, load, kind, options.steps_in_flight,
                                             run_options, run, options.refusals);
  }
  return {.load = load.kind,
          .utilization = load.utilization,
          .capacity = load.capacity,
          .makespan_min = load.makespan_min,
          .num_requests = load.requests.size(),
          .scheduler = kind,
          .metrics = metrics,
          .cpu_s = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC};
}

void PrintTables(const DeviceModel& device, const std::vector<RunResult>& results) {
  fmt::print(
      "device {}: step = {:g} ms + {:g} us x prompt tokens + {:g} us x decoding sequences + {:g} "
      "us x "
      "positions; {} tokens in a step, {} running sequences, {} blocks of {} tokens\n\n",
      device.name, device.step_s * 1e3, device.prompt_token_s * 1e6, device.decoding_s * 1e6,
      device.position_s * 1e6, device.step_tokens_max, device.running_max, device.num_blocks,
      device.block_size);
  fmt::print("{}\n{}", ResultTable(results), ComparisonTable(results));
  double cpu_s = 0;
  for (const RunResult& result : results) cpu_s += result.cpu_s;
  fmt::print("\n{} runs, {:.1f} s of CPU time\n", results.size(), cpu_s);
}

absl::Status RunAll(const ProgramOptions& options) {
  const DeviceModel* found = FindDevice(options.device);
  if (found == nullptr) return absl::InvalidArgumentError("--device: no such device model");
  DeviceModel device = *found;
  if (options.step_tokens > 0) device.step_tokens_max = options.step_tokens;
  if (options.running_max > 0) device.running_max = options.running_max;
  device.itl_target_s = options.itl_target;
  device.itl_ratio = options.itl_ratio;
  device.ttft_target_s = options.ttft_target;
  INCIPIT_ASSIGN_OR_RETURN(const auto kinds, ParseNames("load", options.load, kLoadNames));
  INCIPIT_ASSIGN_OR_RETURN(const auto schedulers,
                           ParseNames("scheduler", options.scheduler, kSchedulerNames));
  INCIPIT_ASSIGN_OR_RETURN(const auto utilizations, ParseUtilizations(options.utilization));
  std::vector<RunResult> results;
  for (const LoadKind kind : kinds) {
    for (const double utilization : utilizations) {
      if (kind == LoadKind::kOverload && utilization != utilizations.front()) continue;
      INCIPIT_ASSIGN_OR_RETURN(
          const Load load,
          MakeLoad(device, {.kind = kind,
                            .utilization = utilization,
                            .seed = static_cast<uint64_t>(options.seed),
                            .horizon_s = options.horizon,
                            .trace = options.trace,
                            .trace_requests_max = options.trace_requests,
                            .trace_hash_id_tokens = options.trace_hash_id_tokens}));
      for (const SchedulerKind scheduler : schedulers) {
        results.push_back(RunOne(device, load, scheduler, options));
        if (options.json) fmt::print("{}", ResultJson(device, results.back()));
      }
    }
  }
  if (!options.json) PrintTables(device, results);
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  ProgramOptions options;
  Flags flags;
  BindFlags(options, flags);
  const std::vector<std::string_view> args(argv + 1, argv + argc);
  absl::Status status = flags.ParseAll(args);
  if (status.ok() && flags.help_requested()) {
    fmt::print("{}", flags.Help());
    return 0;
  }
  if (status.ok()) status = RunAll(options);
  if (status.ok()) return 0;
  fmt::print(stderr, "serving_simulation: {}\n", MessageOf(status));
  return 2;
}

}  // namespace
}  // namespace incipit::serving_sim

int main(int argc, char** argv) { return incipit::serving_sim::Main(argc, argv); }
