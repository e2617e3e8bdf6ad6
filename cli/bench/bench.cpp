#include "cli/bench/bench.h"

#include <fmt/format.h>

#include <fstream>
#include <optional>
#include <random>
#include <utility>

#include "base/flags.h"
#include "base/scheduling.h"
#include "base/status.h"
#include "cli/bench/bench_load.h"
#include "cli/bench/bench_options.h"
#include "cli/bench/bench_prompts.h"
#include "cli/bench/bench_report.h"
#include "cli/bench/bench_requests.h"
#include "cli/bench/bench_server.h"
#include "cli/bench/bench_source.h"
#include "cli/client/terminal.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/json_text.h"

namespace incipit {
namespace {

constexpr std::string_view kDescription =
    "Sends requests to a server. Measures the time to the first token, the time between tokens,\n"
    "the time of the whole request, the throughput, and the share of prompt tokens that the\n"
    "server found in its cache (the hit ratio).\n"
    "\n"
    "The prompts are random tokens, a workload (--workload) or a log of requests (--trace). The\n"
    "first --shared-prefix-tokens tokens of random prompts are equal. The workloads are:\n";

constexpr std::string_view kMoreDescription =
    "\n"
    "If the longest request of a workload or of a log does not fit the context of the model, all\n"
    "lengths are multiplied by one factor, which the output shows.\n"
    "\n"
    "With --concurrency (closed loop), a user sends a request when the previous request of the\n"
    "user has ended. With --rate (open loop), requests start at the random times of a Poisson\n"
    "process, even if previous requests still run. With --trace alone, requests start at the\n"
    "times of the log. In an open loop, the time to the first token and the time of the whole\n"
    "request begin at the planned start of the request.\n"
    "\n"
    "Equal values of --seed give equal prompts and start times, so a repeated run against the\n"
    "same server finds its prompts in the cache.\n"
    "\n"
    "--json prints one object with the keys workload, length_scale, requests, errors, duration_s,\n"
    "prompt_tokens, cached_tokens, hit_ratio, implied_hit_ratio, evictions, regret,\n"
    "output_tokens, output_tokens_per_s, full_load_s, full_load_output_tokens_per_s, ttft_ms,\n"
    "itl_ms, e2e_ms, ttft_target_ms, itl_target_ms, requests_within_targets and\n"
    "goodput_requests_per_s. The values of ttft_ms, itl_ms and e2e_ms have the form {p50, p90,\n"
    "p99, max}. implied_hit_ratio is the hit ratio of an empty cache without a size limit.\n"
    "full_load_s is the time in which all --concurrency requests decode. If there is no such\n"
    "time, the values of the keys with full_load are null.\n"
    "\n"
    "Exit codes: 0 success, 1 no request succeeded or the log is wrong, 2 a flag is wrong.";

constexpr std::string_view kExamples =
    "  incipit bench --requests 200 --concurrency 16\n"
    "  incipit bench --requests 500 --rate 20 --prompt-tokens 512 --output-tokens 64 --seed 1\n"
    "  incipit bench --requests 100 --shared-prefix-tokens 200 --prompt-tokens 256 --json\n"
    "  incipit bench --workload multi-turn --concurrency 16 --think-time 5s\n"
    "  incipit bench --trace trace.jsonl --time-scale 0.5 --ttft-target 2s --itl-target 50ms\n";

// Returns the description of `incipit bench` for its help text. The description has one line for
// each workload.
std::string Description() {
  std::string text(kDescription);
  for (const Workload& workload : Workloads()) {
    text += fmt::format("  {:<20}{}\n", workload.name, workload.summary);
  }
  return text + std::string(kMoreDescription);
}

void ReportProgress(int32_t num_requests, const BenchProgress& progress) {
  const double rate =
      progress.seconds > 0 ? static_cast<double>(progress.num_output_tokens) / progress.seconds : 0;
  Print(stderr,
        fmt::format(
            "\r\x1b[K{} of {} requests done, {} in flight, {} errors, {:.0f} tokens/s, {:.0f} s",
            progress.num_done, num_requests, progress.num_in_flight, progress.num_errors, rate,
            progress.seconds));
}

BenchResult RunLoad(const BenchOptions& options, BenchServer& server, BenchSource& source,
                    uint64_t seed, BenchRequests& requests) {
  BenchPlan plan;
  plan.num_requests = source.num_requests;
  plan.num_users = options.concurrency.value_or(kBenchUsers);
  plan.arrivals = std::move(source.arrivals);
  plan.make_request = [&](int32_t index, int32_t user) { return requests.Make(index, user); };
  plan.on_end = [&](const BenchEnd& end) { requests.OnEnd(end); };
  if (options.think_time > Duration::zero()) {
    plan.think_time = [seed, mean = ToSeconds(options.think_time)](int32_t index) {
      return ThinkTime(seed, index, mean);
    };
  }
  const bool shows_progress = IsTerminal(stderr);
  std::function<void(const BenchProgress&)> report;
  if (shows_progress) {
    report = [&](const BenchProgress& progress) { ReportProgress(source.num_requests, progress); };
  }
  BenchResult result = BenchLoad(server.inference(), options.client, std::move(plan)).Run(report);
  if (shows_progress) Print(stderr, "\r\x1b[K");
  return result;
}

// Writes one line for each request to `file`.
absl::Status WriteRecords(const BenchOptions& options, const BenchResult& result,
                          std::ofstream& file) {
  if (options.records.empty()) return absl::OkStatus();
  int64_t index = 0;
  for (const BenchRecord& record : result.records) file << JsonLine(ToJson(index++, record));
  file.close();
  if (file.good()) return absl::OkStatus();
  return Unavailable("cannot write the file {} (--records)", options.records);
}

absl::StatusOr<BenchSummary> Measure(const BenchOptions& options, uint64_t seed,
                                     std::optional<Trace> trace) {
  std::ofstream records;
  if (!options.records.empty()) records.open(options.records, std::ios::trunc);
  if (!records.good()) return Unavailable("cannot open the file {} (--records)", options.records);
  // Set the scheduling policy SCHED_BATCH. The threads of the load test then do not preempt other
  // threads, such as those of a server on the same machine.
  NeverInterruptOthers();
  BenchServer server(options.client, options.admin_address);
  INCIPIT_ASSIGN_OR_RETURN(v1::GetModelInfoResponse model, server.GetModelInfo());
  INCIPIT_ASSIGN_OR_RETURN(std::vector<uint32_t> tokens, server.PromptTokens(model));
  INCIPIT_ASSIGN_OR_RETURN(
      BenchSource source,
      MakeSource(options, {std::move(tokens), std::move(model), seed}, std::move(trace)));
  const auto before = server.GetLoad();
  std::optional<int32_t> block_size;
  if (before) block_size = static_cast<int32_t>(before->block_size());
  BenchRequests requests(source.prompts, seed, options.temperature, block_size);
  BenchResult result = RunLoad(options, server, source, seed, requests);
  const auto after = server.GetLoad();
  INCIPIT_RETURN_IF_ERROR(WriteRecords(options, result, records));
  const bool knows_implied = requests.FillImplied(result.records);
  BenchSummary summary = Summarize(result, options.targets());
  if (!knows_implied) summary.implied_tokens.reset();
  summary.workload = source.workload;
  summary.length_scale = source.length_scale;
  if (before && after) {
    summary.evictions =
        static_cast<int64_t>(after->evicted_blocks_total() - before->evicted_blocks_total());
    summary.regret =
        static_cast<int64_t>(after->regret_blocks_total() - before->regret_blocks_total());
  }
  return summary;
}

}  // namespace

int RunBench(std::span<const std::string_view> args) {
  const std::string description = Description();
  const CommandText text = {"bench", "[--concurrency N | --rate R] [flags]", description,
                            kExamples};
  BenchOptions options;
  Flags flags;
  BindBenchFlags(flags, options);
  if (const auto exit_code = ParseArguments(text, flags, args)) return *exit_code;
  if (const absl::Status status = CheckBenchOptions(flags, options); !status.ok()) {
    return ReportUsage(text, status);
  }
  absl::StatusOr<std::optional<Trace>> trace = ReadLog(options);
  if (!trace.ok()) return ReportFailure(text, MessageOf(trace.status()));
  const auto seed = static_cast<uint64_t>(options.seed.value_or(std::random_device()()));
  const auto summary = Measure(options, seed, *std::move(trace));
  if (summary.status().code() == absl::StatusCode::kInvalidArgument) {
    return ReportUsage(text, summary.status());
  }
  if (!summary.ok()) return ReportFailure(text, MessageOf(summary.status()));
  if (options.json) {
    Print(stdout, JsonLine(ToJson(*summary)));
  } else {
    Print(stdout, fmt::format("seed {}\n{}", seed, Describe(*summary)));
  }
  if (options.json && !summary->errors.empty()) {
    ReportFailure(text, fmt::format("{} requests failed, for example with the error {}",
                                    summary->num_errors, summary->errors.begin()->first));
  }
  return summary->num_errors == summary->num_requests ? kExitFailure : kExitOk;
}

}  // namespace incipit
