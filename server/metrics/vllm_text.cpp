#include "server/metrics/vllm_text.h"

#include <vector>

#include "server/metrics/family_writer.h"

namespace incipit {
namespace {

std::vector<MetricSample> VllmFinishedSamples(const MetricsValues& values) {
  const auto count = [&](FinishReason reason) {
    return static_cast<double>(ReadMetric(values.finished[static_cast<size_t>(reason)]));
  };
  return {{{{"finished_reason", "stop"}}, count(FinishReason::kStop)},
          {{{"finished_reason", "length"}}, count(FinishReason::kLength)},
          {{{"finished_reason", "abort"}},
           count(FinishReason::kCancelled) + count(FinishReason::kDeadline) +
               count(FinishReason::kTooLate)},
          {{{"finished_reason", "error"}}, count(FinishReason::kError)}};
}

void WriteVllmLoad(FamilyWriter& out, const MetricsFacts& facts) {
  out.Gauge("vllm:num_requests_running",
            "Number of sequences that hold cache blocks. Each output (choice) of a request is a "
            "sequence.",
            facts.load.num_running);
  out.Gauge("vllm:num_requests_waiting", "Number of requests in the queue.",
            facts.load.num_waiting);
  constexpr const char* kUsage =
      "Number of cache blocks that requests hold, divided by the number of all cache blocks: from "
      "0 to 1.";
  out.Gauge("vllm:kv_cache_usage_perc", kUsage, facts.used_ratio());
  // Writes the metric a second time, under its name in older versions of vLLM. The router of vLLM's
  // production-stack reads the metric under this name.
  out.Gauge("vllm:gpu_cache_usage_perc", kUsage, facts.used_ratio());
  out.Gauge(
      "vllm:cache_config_info",
      "Always 1. The labels contain the size of a cache block and the number of cache blocks.",
      {{{{"block_size", std::to_string(facts.model.block_size)},
         {"num_gpu_blocks", std::to_string(facts.model.num_blocks)}},
        1}});
  out.Gauge("vllm:lora_requests_info",
            "Present time, in seconds since the Unix epoch. The labels name the LoRA adapters of "
            "running and waiting requests. The server supports no LoRA adapters.",
            {{{{"max_lora", "0"}, {"running_lora_adapters", ""}, {"waiting_lora_adapters", ""}},
              facts.time}});
}

void WriteVllmCache(FamilyWriter& out, const MetricsValues& values, const HitRatios& ratios) {
  // Writes each metric under two names: the present name in vLLM, and the name with "gpu_" in older
  // versions. The router of vLLM's production-stack reads the names with "gpu_".
  for (const char* const name :
       {"vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total"}) {
    out.Counter(name, "Number of prompt tokens that were looked up in the prefix cache.",
                ReadMetric(values.queried_tokens));
  }
  for (const char* const name :
       {"vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"}) {
    out.Counter(name, "Number of prompt tokens that were looked up and found in the prefix cache.",
                ReadMetric(values.hit_tokens));
  }
  out.Gauge("vllm:gpu_prefix_cache_hit_rate",
            "Share of the looked-up prompt tokens that were found in the prefix cache in the last "
            "10 minutes. 0 if no tokens were looked up.",
            ratios.ten_minutes);
}

void WriteVllmCounts(FamilyWriter& out, const MetricsValues& values) {
  int64_t num_preemptions = 0;
  for (const MetricsCounter& counter : values.preemptions) num_preemptions += ReadMetric(counter);
  out.Counter("vllm:num_preemptions_total", "Number of preemptions of running sequences.",
              num_preemptions);
  out.Counter("vllm:prompt_tokens_total", "Number of prompt tokens of admitted requests.",
              ReadMetric(values.prompt_computed_tokens) + ReadMetric(values.prompt_cached_tokens));
  out.Counter("vllm:generation_tokens_total", "Number of output tokens.",
              ReadMetric(values.generated_tokens));
  out.Counter("vllm:request_success_total", "Number of requests that have ended, by finish reason.",
              VllmFinishedSamples(values));
  out.Histogram("vllm:iteration_tokens_total",
                "Number of tokens that one step (batch) of the engine computed.",
                values.step_tokens.Read());
}

void WriteVllmSizes(FamilyWriter& out, const MetricsValues& values, int32_t max_model_len) {
  const std::span<const double> bounds = VllmTokenBounds(max_model_len);
  out.Histogram("vllm:request_prompt_tokens", "Number of prompt tokens of a request.",
                values.request_prompt_tokens.Read(bounds));
  out.Histogram("vllm:request_generation_tokens",
                "Number of output tokens of all outputs (choices) of a request.",
                values.request_output_tokens.Read(bounds));
  out.Histogram("vllm:request_max_num_generation_tokens",
                "Number of output tokens of the longest output (choice) of a request.",
                values.longest_output_tokens.Read(bounds));
  out.Histogram("vllm:request_params_n", "Number of outputs (choices) that a request asked for.",
                values.request_choices.Read());
  out.Histogram("vllm:request_params_max_tokens",
                "Maximum number of output tokens of each output (choice) of a request: the "
                "request's limit, or the room in the context if the room is smaller.",
                values.request_output_tokens_max.Read(bounds));
}

void WriteVllmTokenTimes(FamilyWriter& out, const MetricsValues& values) {
  out.Histogram("vllm:time_to_first_token_seconds",
                "Time from the arrival of a request to its first output token.",
                values.first_token.Read(kVllmFirstTokenBounds));
  // Writes the metric under two names: the present name in vLLM, and the name in older versions.
  for (const char* const name :
       {"vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"}) {
    out.Histogram(name, "Time between two consecutive tokens of one output (choice).",
                  values.inter_token.Read(kVllmInterTokenBounds));
  }
  out.Histogram("vllm:request_time_per_output_token_seconds",
                "Mean time between two consecutive tokens of one output (choice) of a request. "
                "Requests without two tokens in one output are not counted.",
                values.request_inter_token.Read());
}

void WriteVllmRequestTimes(FamilyWriter& out, const MetricsValues& values) {
  const std::span<const double> bounds = kVllmRequestBounds;
  out.Histogram("vllm:e2e_request_latency_seconds",
                "Time from the arrival of a request to its end.", values.total.Read(bounds));
  out.Histogram("vllm:request_queue_time_seconds",
                "Time from the arrival of a request to the first step (batch) that computed tokens "
                "for the request.",
                values.queue.Read(bounds));
  out.Histogram("vllm:request_inference_time_seconds",
                "Time from the first step (batch) that computed tokens for a request to the "
                "request's last output token.",
                values.inference.Read());
  out.Histogram("vllm:request_prefill_time_seconds",
                "Time from the first step (batch) that computed tokens for a request to the "
                "request's first output token.",
                values.prefill.Read(bounds));
  out.Histogram("vllm:request_decode_time_seconds",
                "Time from the first to the last output token of a request.",
                values.decode.Read(bounds));
}

}  // namespace

std::string VllmMetricsText(const MetricsValues& values, const MetricsFacts& facts) {
  FamilyWriter out({{"model_name", facts.model.name}, {"engine", "0"}});
  WriteVllmLoad(out, facts);
  WriteVllmCache(out, values, facts.load.hit_ratios);
  WriteVllmCounts(out, values);
  WriteVllmSizes(out, values, facts.model.max_model_len);
  WriteVllmTokenTimes(out, values);
  WriteVllmRequestTimes(out, values);
  return out.Serialize();
}

}  // namespace incipit
