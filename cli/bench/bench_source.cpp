#include "cli/bench/bench_source.h"

#include <limits>
#include <memory>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "cli/bench/bench_prompts.h"
#include "cli/bench/trace_prompts.h"
#include "cli/bench/workload_prompts.h"
#include "text/tokenizer/tokenizer.h"

namespace incipit {
namespace {

absl::StatusOr<BenchSource> RandomSource(const BenchOptions& options, PromptBasis basis) {
  const int64_t num_tokens = int64_t{options.prompt_tokens} + options.output_tokens;
  if (num_tokens > basis.model.max_model_len()) {
    return InvalidArgument(
        "--prompt-tokens and --output-tokens add up to {}; the context of the model {} has {} "
        "tokens",
        num_tokens, basis.model.name(), basis.model.max_model_len());
  }
  const auto prompts = std::make_shared<BenchPrompts>(
      std::move(basis.tokens), basis.seed, options.prompt_tokens, options.shared_prefix_tokens);
  BenchSource source;
  source.num_requests = options.num_requests.value_or(kBenchRequests);
  source.prompts.next = [prompts, num_output = options.output_tokens](int32_t index, int32_t) {
    return BenchPrompt{prompts->Make(index), num_output};
  };
  return source;
}

absl::StatusOr<BenchSource> WorkloadSource(const BenchOptions& options, PromptBasis basis) {
  Workload workload = *options.workload;
  workload.num_turns = options.num_turns.value_or(workload.num_turns);
  INCIPIT_ASSIGN_OR_RETURN(const FittedWorkload fitted, FitWorkload(workload, options.length_scale,
                                                                    basis.model.max_model_len()));
  const auto prompts =
      std::make_shared<WorkloadPrompts>(std::move(basis.tokens), basis.seed, fitted.workload);
  BenchSource source;
  source.num_requests = options.num_requests.value_or(kBenchRequests);
  source.workload = workload.name;
  source.length_scale = fitted.scale;
  source.prompts.next = [prompts](int32_t, int32_t user) { return prompts->Next(user); };
  source.prompts.on_end = [prompts](const BenchEnd& end) {
    prompts->OnEnd(end.user, end.succeeded, end.output);
  };
  return source;
}

absl::StatusOr<BenchSource> TraceSource(const BenchOptions& options, PromptBasis basis,
                                        Trace trace) {
  if (basis.model.max_model_len() < kTraceContextMin) {
    return InvalidArgument("the context of the model {} has {} tokens; --trace needs at least {}",
                           basis.model.name(), basis.model.max_model_len(), kTraceContextMin);
  }
  BenchSource source;
  source.num_requests = static_cast<int32_t>(trace.requests.size());
  source.workload = "trace";
  if (!options.rate && !options.concurrency && HasTimes(trace)) {
    INCIPIT_ASSIGN_OR_RETURN(source.arrivals,
                             TraceArrivals(trace, options.timestamp_unit, options.time_scale));
  }
  const TraceOptions trace_options = {.block_size = options.block_size.value_or(kHashLogBlockSize),
                                      .output_tokens = options.output_tokens,
                                      .scale = options.length_scale};
  const auto prompts = std::make_shared<TracePrompts>(
      std::move(trace), trace_options, std::move(basis.tokens), basis.model.vocab_size(),
      basis.seed, basis.model.max_model_len());
  source.length_scale = prompts->scale();
  source.prompts.next = [prompts](int32_t index, int32_t) { return prompts->Make(index); };
  return source;
}

}  // namespace

absl::StatusOr<std::optional<Trace>> ReadLog(const BenchOptions& options) {
  if (options.trace.empty()) return std::nullopt;
  std::unique_ptr<Tokenizer> tokenizer;
  TraceTokenizer encode;
  if (!options.tokenizer.empty()) {
    INCIPIT_ASSIGN_OR_RETURN(tokenizer, Tokenizer::Load(options.tokenizer));
    encode = [&](std::string_view text) { return tokenizer->Encode(text, {}); };
  }
  INCIPIT_ASSIGN_OR_RETURN(Trace trace, ReadTraceFile(options.trace, encode));
  const auto num_requests =
      static_cast<size_t>(options.num_requests.value_or(std::numeric_limits<int32_t>::max()));
  if (trace.requests.size() > num_requests) trace.requests.resize(num_requests);
  INCIPIT_RETURN_IF_ERROR(CheckTrace(trace, options.block_size.value_or(kHashLogBlockSize)));
  return trace;
}

absl::StatusOr<BenchSource> MakeSource(const BenchOptions& options, PromptBasis basis,
                                       std::optional<Trace> trace) {
  const uint64_t seed = basis.seed;
  BenchSource source;
  if (trace) {
    INCIPIT_ASSIGN_OR_RETURN(source, TraceSource(options, std::move(basis), *std::move(trace)));
  } else if (options.workload) {
    INCIPIT_ASSIGN_OR_RETURN(source, WorkloadSource(options, std::move(basis)));
  } else {
    INCIPIT_ASSIGN_OR_RETURN(source, RandomSource(options, std::move(basis)));
  }
  if (options.rate) source.arrivals = PoissonArrivals(seed, source.num_requests, *options.rate);
  return source;
}

}  // namespace incipit
