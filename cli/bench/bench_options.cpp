#include "cli/bench/bench_options.h"

#include <chrono>
#include <initializer_list>
#include <string_view>

#include "base/status.h"

namespace incipit {
namespace {

constexpr int32_t kTokensMax = 16'000'000;
constexpr int32_t kTurnsMax = 1000;

void BindLoad(Flags& flags, BenchOptions& options) {
  flags.Group("Load");
  flags.Integer({"requests", "N",
                 "Total number of requests. Default: 100; with --trace, all requests of the log."},
                options.num_requests, {1, 10'000'000});
  flags.Integer({"concurrency", "N",
                 "Number of users, each with one request at a time (closed loop). Default: 8."},
                options.concurrency, {1, 100'000});
  flags.Real({"rate", "R", "Average number of requests that start per second (open loop)."},
             options.rate, {1e-3, 1e6});
  flags.Interval({"think-time", "TIME",
                  "Mean time from the end of a request to the next request of the same user "
                  "(closed loop). The times have an exponential distribution."},
                 options.think_time, {Duration::zero(), std::chrono::hours(1)});
}

void BindRequests(Flags& flags, BenchOptions& options) {
  flags.Group("Requests");
  flags.Integer({"prompt-tokens", "N", "Number of tokens in each prompt."}, options.prompt_tokens,
                {1, kTokensMax});
  flags.Integer({"output-tokens", "N",
                 "Number of output tokens of each request. With --trace: the number for requests "
                 "whose output length is not in the log."},
                options.output_tokens, {1, kTokensMax});
  flags.Integer(
      {"shared-prefix-tokens", "N", "Number of leading tokens that are equal in all prompts."},
      options.shared_prefix_tokens, {0, kTokensMax});
  flags.Integer({"seed", "N",
                 "Seed of the random prompts and start times. Default: a random seed, which is "
                 "printed unless --json is set."},
                options.seed, {0});
  flags.Real({"temperature", "X",
              "Sampling temperature of each request; 0: always the most likely token."},
             options.temperature, {0, 100});
}

void BindWorkload(Flags& flags, BenchOptions& options) {
  flags.Group("Workload");
  flags.Custom(
      {"workload", "NAME",
       "Name of the workload, which sets the lengths of prompts and outputs. The names are listed "
       "above."},
      [&options](std::string_view name) -> absl::Status {
        INCIPIT_ASSIGN_OR_RETURN(options.workload, FindWorkload(name));
        return absl::OkStatus();
      },
      [&options] { return std::string(options.workload ? options.workload->name : ""); });
  flags.Integer(
      {"turns", "N", "Number of requests in a conversation. Each workload has its own default."},
      options.num_turns, {1, kTurnsMax});
  flags.Real({"length-scale", "X",
              "Factor for all lengths of a workload or of a log, at most 1 for a log."},
             options.length_scale, {1e-4, 100});
}

void BindTrace(Flags& flags, BenchOptions& options) {
  flags.Group("Log");
  flags.String({"trace", "FILE",
                "Log of requests to replay, in the formats of `incipit replay`; - is stdin.",
                /*is_private=*/true},
               options.trace);
  flags.Real(
      {"time-scale", "X",
       "Factor for the times between the requests of the log: 0.5 sends them twice as fast."},
      options.time_scale, {0, 1e6});
  flags.Integer({"block-size", "N",
                 "Number of tokens that each hash id of the log stands for. Default: 512."},
                options.block_size, {1, kAnalyzedBlockSizeMax});
  flags.Enum({"time-unit", "UNIT", "Unit of the timestamps in the log."}, options.timestamp_unit,
             kTimestampUnitNames);
  flags.String({"tokenizer", "DIR", "Folder with tokenizer.json. A log of texts needs this flag.",
                /*is_private=*/true},
               options.tokenizer);
}

void BindTargets(Flags& flags, BenchOptions& options) {
  flags.Group("Goodput");
  flags.Interval({"ttft-target", "TIME", "Target for the time to the first token of a request."},
                 options.ttft_target, {Duration::zero(), std::chrono::hours(1)});
  flags.Interval({"itl-target", "TIME",
                  "Target for the 99th percentile of the times between the tokens of a request."},
                 options.itl_target, {Duration::zero(), std::chrono::hours(1)});
}

// Returns an error if a flag of `names` is set. The error message says that the flag has no effect
// under the condition `condition`, for example "with --trace".
absl::Status CheckUnset(const Flags& flags, std::initializer_list<std::string_view> names,
                        std::string_view condition) {
  for (const std::string_view name : names) {
    if (flags.IsSet(name)) return InvalidArgument("--{} has no effect {}", name, condition);
  }
  return absl::OkStatus();
}

}  // namespace

void BindBenchFlags(Flags& flags, BenchOptions& options) {
  BindLoad(flags, options);
  BindRequests(flags, options);
  BindWorkload(flags, options);
  BindTrace(flags, options);
  BindTargets(flags, options);
  flags.Group("Output");
  flags.Switch({"json", "", "Print the results as one JSON object."}, options.json);
  flags.String({"records", "FILE", "Write one JSON object for each request to FILE."},
               options.records);
  BindClientFlags(flags, options.client);
  flags.String({"admin-address", "HOST:PORT",
                "Address of the server's Admin service, if it differs from --address."},
               options.admin_address);
}

absl::Status CheckBenchOptions(const Flags& flags, const BenchOptions& options) {
  const bool has_trace = !options.trace.empty();
  if (flags.IsSet("rate") && flags.IsSet("concurrency")) {
    return InvalidArgument("--rate and --concurrency exclude each other");
  }
  if (options.workload && has_trace) {
    return InvalidArgument("--workload and --trace exclude each other");
  }
  if (options.workload) {
    INCIPIT_RETURN_IF_ERROR(CheckUnset(flags,
                                       {"prompt-tokens", "output-tokens", "shared-prefix-tokens"},
                                       "with --workload; use --length-scale"));
  } else {
    INCIPIT_RETURN_IF_ERROR(CheckUnset(flags, {"turns"}, "without --workload"));
  }
  if (has_trace) {
    INCIPIT_RETURN_IF_ERROR(
        CheckUnset(flags, {"prompt-tokens", "shared-prefix-tokens"}, "with --trace"));
    if (options.length_scale > 1) {
      return InvalidArgument("--length-scale is {}; it must be at most 1 with --trace",
                             options.length_scale);
    }
  } else {
    INCIPIT_RETURN_IF_ERROR(CheckUnset(
        flags, {"time-scale", "block-size", "time-unit", "tokenizer"}, "without --trace"));
  }
  if (!options.workload && !has_trace) {
    INCIPIT_RETURN_IF_ERROR(CheckUnset(flags, {"length-scale"}, "without --workload and --trace"));
  }
  if (options.rate || (has_trace && !options.concurrency)) {
    INCIPIT_RETURN_IF_ERROR(CheckUnset(flags, {"think-time"}, "in an open loop"));
  }
  if (options.shared_prefix_tokens > options.prompt_tokens) {
    return InvalidArgument("--shared-prefix-tokens is {}; it must be at most --prompt-tokens, {}",
                           options.shared_prefix_tokens, options.prompt_tokens);
  }
  return absl::OkStatus();
}

}  // namespace incipit
