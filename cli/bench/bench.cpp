#include "cli/bench/bench.h"

#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <random>

#include "base/flags.h"
#include "base/scheduling.h"
#include "base/status.h"
#include "cli/bench/bench_load.h"
#include "cli/bench/bench_prompts.h"
#include "cli/bench/bench_report.h"
#include "cli/client/client.h"
#include "cli/client/terminal.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/json_text.h"
#include "incipit/v1/admin.grpc.pb.h"

namespace incipit {
namespace {

constexpr CommandText kBenchText = {
    "bench", "[--concurrency N | --rate R] [flags]",
    "Sends requests with prompts of random tokens to a server. Measures the time to the first\n"
    "token, the time between tokens, the time of the whole request, the throughput, and the\n"
    "share of prompt tokens that the server found in its cache.\n"
    "\n"
    "With --concurrency (closed loop), a new request starts when a request ends. With --rate\n"
    "(open loop), requests start at the random times of a Poisson process, even if previous\n"
    "requests still run. With --rate, the time to the first token and the time of the whole\n"
    "request begin at the planned start of the request.\n"
    "\n"
    "The first --shared-prefix-tokens tokens are equal in all prompts. Equal values of --seed\n"
    "give equal prompts and start times, so a repeated run against the same server finds its\n"
    "prompts in the cache.\n"
    "\n"
    "--json prints one object with the keys requests, errors, duration_s, prompt_tokens,\n"
    "cached_tokens, output_tokens, output_tokens_per_s, full_load_s,\n"
    "full_load_output_tokens_per_s, ttft_ms, itl_ms and e2e_ms. The values of ttft_ms, itl_ms\n"
    "and e2e_ms have the form {p50, p90, p99, max}. full_load_s is the time in which all\n"
    "--concurrency requests decode. If there is no such time, the values of the keys with\n"
    "full_load are null.\n"
    "\n"
    "Exit codes: 0 success, 1 no request succeeded, 2 a flag is wrong.",
    "  incipit bench --requests 200 --concurrency 16\n"
    "  incipit bench --requests 500 --rate 20 --prompt-tokens 512 --output-tokens 64 --seed 1\n"
    "  incipit bench --requests 100 --shared-prefix-tokens 200 --prompt-tokens 256 --json\n"};

struct BenchOptions {
  ClientOptions client;
  std::string admin_address;  // address of the Admin service; empty: the same as `client.address`
  int32_t num_requests = 100, concurrency = 8;
  std::optional<double> rate;
  int32_t prompt_tokens = 256, output_tokens = 32, shared_prefix_tokens = 0;
  std::optional<int64_t> seed;
  float temperature = 0;
  bool json = false;
};

void Bind(Flags& flags, BenchOptions& options) {
  constexpr int32_t kTokensMax = 16'000'000;
  flags.Group("Load");
  flags.Integer({"requests", "N", "Total number of requests."}, options.num_requests,
                {1, 10'000'000});
  flags.Integer({"concurrency", "N", "Number of requests that run at the same time (closed loop)."},
                options.concurrency, {1, 100'000});
  flags.Real({"rate", "R", "Average number of requests that start per second (open loop)."},
             options.rate, {1e-3, 1e6});
  flags.Group("Requests");
  flags.Integer({"prompt-tokens", "N", "Number of tokens in each prompt."}, options.prompt_tokens,
                {1, kTokensMax});
  flags.Integer({"output-tokens", "N", "Number of output tokens of each request."},
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
  flags.Group("Output");
  flags.Switch({"json", "", "Print the results as one JSON object."}, options.json);
  BindClientFlags(flags, options.client);
  flags.String({"admin-address", "HOST:PORT",
                "Address of the server's Admin service, if it differs from --address."},
               options.admin_address);
}

absl::Status Check(const Flags& flags, const BenchOptions& options) {
  if (flags.IsSet("rate") && flags.IsSet("concurrency")) {
    return InvalidArgument("--rate and --concurrency exclude each other");
  }
  if (options.shared_prefix_tokens > options.prompt_tokens) {
    return InvalidArgument("--shared-prefix-tokens is {}; it must be at most --prompt-tokens, {}",
                           options.shared_prefix_tokens, options.prompt_tokens);
  }
  return absl::OkStatus();
}

absl::Status ToStatus(const ClientOptions& client, const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  return Unavailable("{}", DescribeError(client, status));
}

absl::StatusOr<v1::GetModelInfoResponse> GetModelInfo(const BenchOptions& options) {
  ClientOptions client = options.client;
  if (!options.admin_address.empty()) client.address = options.admin_address;
  grpc::ClientContext context;
  PrepareCall(client, context);
  v1::GetModelInfoResponse info;
  const auto stub = v1::Admin::NewStub(OpenChannel(client));
  const grpc::Status status = stub->GetModelInfo(&context, v1::GetModelInfoRequest(), &info);
  if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) {
    return Unavailable(
        "there is no Admin service at {}; set --admin-address to the address of that service",
        client.address);
  }
  INCIPIT_RETURN_IF_ERROR(ToStatus(client, status));
  return info;
}

absl::StatusOr<std::string> Detokenize(const ClientOptions& client, v1::Inference::Stub& stub,
                                       const v1::DetokenizeRequest& request) {
  grpc::ClientContext context;
  PrepareCall(client, context);
  v1::DetokenizeResponse response;
  INCIPIT_RETURN_IF_ERROR(ToStatus(client, stub.Detokenize(&context, request, &response)));
  return response.text();
}

// Returns the ids of all tokens of the server's model, without special tokens such as the
// end-of-sequence token.
absl::StatusOr<std::vector<uint32_t>> PromptTokens(const ClientOptions& client,
                                                   v1::Inference::Stub& stub,
                                                   const v1::GetModelInfoResponse& info) {
  const auto has_special = [&](uint32_t begin, uint32_t end) -> absl::StatusOr<bool> {
    for (const uint32_t id : info.eos_token_ids()) {
      if (begin <= id && id < end) return true;
    }
    if (!info.has_tokenizer()) return false;
    v1::DetokenizeRequest request;
    for (uint32_t id = begin; id < end; ++id) request.add_ids(id);
    INCIPIT_ASSIGN_OR_RETURN(const std::string whole, Detokenize(client, stub, request));
    request.set_skip_special_tokens(true);
    INCIPIT_ASSIGN_OR_RETURN(const std::string skipped, Detokenize(client, stub, request));
    return whole != skipped;
  };
  INCIPIT_ASSIGN_OR_RETURN(auto tokens, OrdinaryTokens(info.vocab_size(), has_special));
  if (tokens.empty()) return FailedPrecondition("every token of the model is a special token");
  return tokens;
}

void ReportProgress(const BenchOptions& options, const BenchProgress& progress) {
  const double rate =
      progress.seconds > 0 ? static_cast<double>(progress.num_output_tokens) / progress.seconds : 0;
  Print(stderr,
        fmt::format(
            "\r\x1b[K{} of {} requests done, {} in flight, {} errors, {:.0f} tokens/s, {:.0f} s",
            progress.num_done, options.num_requests, progress.num_in_flight, progress.num_errors,
            rate, progress.seconds));
}

absl::StatusOr<BenchResult> Measure(const BenchOptions& options, uint64_t seed) {
  // Set the scheduling policy SCHED_BATCH. The threads of the load test then do not preempt other
  // threads, such as those of a server on the same machine.
  NeverInterruptOthers();
  const auto channel = OpenChannel(options.client);
  INCIPIT_ASSIGN_OR_RETURN(const auto info, GetModelInfo(options));
  const int64_t num_tokens = int64_t{options.prompt_tokens} + options.output_tokens;
  if (num_tokens > info.max_model_len()) {
    return InvalidArgument(
        "--prompt-tokens and --output-tokens add up to {}; the context of the model {} has {} "
        "tokens",
        num_tokens, info.name(), info.max_model_len());
  }
  const auto stub = v1::Inference::NewStub(channel);
  INCIPIT_ASSIGN_OR_RETURN(auto tokens, PromptTokens(options.client, *stub, info));
  const BenchPrompts prompts(std::move(tokens), seed, options.prompt_tokens,
                             options.shared_prefix_tokens);
  BenchPlan plan{
      options.num_requests, options.concurrency, {}, [&](int32_t index) {
        v1::GenerateRequest request;
        const auto prompt = prompts.Make(index);
        request.mutable_token_ids()->mutable_ids()->Assign(prompt.begin(), prompt.end());
        request.mutable_sampling()->set_temperature(options.temperature);
        request.mutable_sampling()->set_seed(static_cast<int64_t>(seed) + index);
        request.mutable_output()->set_max_tokens(static_cast<uint32_t>(options.output_tokens));
        request.mutable_output()->set_ignore_eos(true);
        return request;
      }};
  if (options.rate) plan.arrivals = PoissonArrivals(seed, options.num_requests, *options.rate);
  BenchLoad load(*stub, options.client, std::move(plan));
  const bool shows_progress = IsTerminal(stderr);
  std::function<void(const BenchProgress&)> report;
  if (shows_progress) {
    report = [&](const BenchProgress& progress) { ReportProgress(options, progress); };
  }
  BenchResult result = load.Run(report);
  if (shows_progress) Print(stderr, "\r\x1b[K");
  return result;
}

}  // namespace

int RunBench(std::span<const std::string_view> args) {
  BenchOptions options;
  Flags flags;
  Bind(flags, options);
  if (const auto exit_code = ParseArguments(kBenchText, flags, args)) return *exit_code;
  if (const absl::Status status = Check(flags, options); !status.ok()) {
    return ReportUsage(kBenchText, status);
  }
  const auto seed = static_cast<uint64_t>(options.seed.value_or(std::random_device()()));
  const auto result = Measure(options, seed);
  if (result.status().code() == absl::StatusCode::kInvalidArgument) {
    return ReportUsage(kBenchText, result.status());
  }
  if (!result.ok()) return ReportFailure(kBenchText, MessageOf(result.status()));
  const BenchSummary summary = Summarize(*result);
  if (options.json) {
    Print(stdout, JsonLine(ToJson(summary)));
  } else {
    Print(stdout, fmt::format("seed {}\n{}", seed, Describe(summary)));
  }
  if (options.json && !summary.errors.empty()) {
    ReportFailure(kBenchText, fmt::format("{} requests failed, for example with the error {}",
                                          summary.num_errors, summary.errors.begin()->first));
  }
  return summary.num_errors == summary.num_requests ? kExitFailure : kExitOk;
}

}  // namespace incipit
