#include "server/metrics/prometheus_text.h"

#include <utility>
#include <vector>

#include "server/metrics/disk_cache_text.h"
#include "server/metrics/family_writer.h"
#include "server/metrics/scheduling_text.h"
#include "server/metrics/vllm_text.h"

#ifndef INCIPIT_VERSION
#error "the build must define the macro INCIPIT_VERSION: the version of Incipit, as a string"
#endif

namespace incipit {
namespace {

std::vector<MetricSample> RequestSamples(const MetricsValues& values) {
  constexpr std::pair<const char*, const char*> kOutcomes[kNumFinishReasons] = {
      {"ok", "stop"},       {"ok", "length"}, {"cancelled", "none"}, {"deadline_exceeded", "none"},
      {"too_late", "none"}, {"error", "none"}};
  std::vector<MetricSample> samples;
  for (size_t i = 0; i < kNumFinishReasons; ++i) {
    samples.push_back({{{"outcome", kOutcomes[i].first}, {"finish_reason", kOutcomes[i].second}},
                       static_cast<double>(ReadMetric(values.finished[i]))});
  }
  return samples;
}

std::vector<MetricSample> RejectionSamples(const MetricsValues& values) {
  std::vector<MetricSample> samples;
  for (size_t i = 0; i < kNumRejectionLabels; ++i) {
    samples.push_back({{{"reason", std::string(NameOf(static_cast<RejectionLabel>(i)))}},
                       static_cast<double>(ReadMetric(values.rejected[i]))});
  }
  return samples;
}

void WriteRequests(FamilyWriter& out, const MetricsValues& values, const EngineLoad& load) {
  out.Counter("incipit_requests_total", "Number of accepted requests that have ended.",
              RequestSamples(values));
  out.Counter("incipit_requests_rejected_total",
              "Number of requests that were refused before the engine accepted them, by reason.",
              RejectionSamples(values));
  out.Gauge("incipit_requests_running",
            "Number of sequences that hold cache blocks. Each output (choice) of a request is a "
            "sequence.",
            load.num_running);
  out.Gauge("incipit_requests_waiting", "Number of requests that wait in the queue of the engine.",
            load.num_waiting);
  out.Gauge("incipit_waiting_prompt_tokens",
            "Number of prompt tokens of all requests that wait in the queue of the engine.",
            static_cast<double>(load.num_waiting_prompt_tokens));
  out.Gauge("incipit_draining", "1 while the server drains (refuses new requests), else 0.",
            load.draining ? 1 : 0);
  const auto kind = [](const char* name, const MetricsCounter& counter) {
    return MetricSample{{{"kind", name}}, static_cast<double>(ReadMetric(counter))};
  };
  out.Counter("incipit_tokens_total",
              "Number of tokens by kind: computed prompt tokens, prompt tokens found in the prefix "
              "cache, and output tokens.",
              {kind("prompt_computed", values.prompt_computed_tokens),
               kind("prompt_cached", values.prompt_cached_tokens),
               kind("generated", values.generated_tokens)});
}

void WriteLatencies(FamilyWriter& out, const MetricsValues& values) {
  out.Histogram("incipit_time_to_first_token_seconds",
                "Time from the arrival of a request to its first output token.",
                values.first_token.Read(kLatencyBounds));
  out.Histogram("incipit_inter_token_latency_seconds",
                "Time between two consecutive tokens of one output (choice).",
                values.inter_token.Read(kLatencyBounds));
  out.Histogram("incipit_request_duration_seconds",
                "Time from the arrival of a request until all of its outputs (choices) have ended.",
                values.total.Read(kLatencyBounds));
  out.Histogram("incipit_request_queue_seconds",
                "Time from the arrival of a request to the first step (batch) that computed tokens "
                "for the request.",
                values.queue.Read(kLatencyBounds));
  out.Histogram("incipit_request_prefill_seconds",
                "Time from the first step (batch) that computed tokens for a request to the "
                "request's first output token.",
                values.prefill.Read(kLatencyBounds));
  out.Histogram("incipit_request_decode_seconds",
                "Time from the first output token of a request to the last output token.",
                values.decode.Read(kLatencyBounds));
}

void WriteCacheTokens(FamilyWriter& out, const MetricsValues& values, const HitRatios& ratios) {
  out.Counter("incipit_prefix_cache_queried_tokens_total",
              "Number of prompt tokens that were looked up in the prefix cache. The prompt tokens "
              "of a preempted request are counted only once.",
              ReadMetric(values.queried_tokens));
  out.Counter("incipit_prefix_cache_hit_tokens_total",
              "Number of prompt tokens that were looked up and found in the prefix cache.",
              ReadMetric(values.hit_tokens));
  out.Counter("incipit_prefix_cache_copied_tokens_total",
              "Number of prompt tokens whose keys and values were copied from a cached block of "
              "which only the first tokens match the prompt.",
              ReadMetric(values.copied_tokens));
  out.Counter("incipit_prefix_cache_requeried_tokens_total",
              "Number of tokens of preempted sequences that were looked up again in the prefix "
              "cache when the sequences continued.",
              ReadMetric(values.requeried_tokens));
  out.Counter("incipit_prefix_cache_rehit_tokens_total",
              "Number of tokens of preempted sequences that were found in the prefix cache when "
              "the sequences continued.",
              ReadMetric(values.rehit_tokens));
  const auto window = [](const char* name, double ratio) {
    return MetricSample{{{"window", name}}, ratio};
  };
  out.Gauge(
      "incipit_prefix_cache_hit_ratio",
      "Share of the looked-up prompt tokens that were found in the prefix "
      "cache in the last minute, 10 minutes or hour. 0 if no tokens were "
      "looked up.",
      {window("1m", ratios.minute), window("10m", ratios.ten_minutes), window("1h", ratios.hour)});
  out.Gauge("incipit_prefix_cache_hit_ratio_alarm",
            "1 while the hit ratio of the prefix cache in the last 10 minutes is "
            "below half of the hit ratio in the last hour, else 0.",
            ratios.decayed ? 1 : 0);
}

void WriteCacheBlocks(FamilyWriter& out, const MetricsValues& values, const MetricsFacts& facts) {
  const EngineLoad& load = facts.load;
  out.Counter("incipit_prefix_cache_stored_blocks_total",
              "Number of computed blocks that were added to the prefix cache.",
              ReadMetric(values.stored_blocks));
  out.Counter(
      "incipit_prefix_cache_evictions_total",
      "Number of blocks that were evicted from the prefix cache, by reason of the eviction.",
      SamplesByLabel("reason", kEvictionReasonNames, values.evictions));
  out.Histogram("incipit_prefix_cache_eviction_age_seconds",
                "Time from the addition of a block to the prefix cache to its eviction. "
                "Evictions by a reset are not counted.",
                values.eviction_age.Read());
  out.Histogram("incipit_prefix_cache_eviction_idle_seconds",
                "Time from the end of a block's last use to its eviction from the "
                "prefix cache. Evictions by a reset are not counted.",
                values.eviction_idle.Read());
  out.Counter("incipit_prefix_cache_regret_blocks_total",
              "Number of evicted blocks that were computed again before N other blocks were "
              "evicted. N is a quarter of the number of all cache blocks.",
              ReadMetric(values.regret_blocks));
  out.Counter("incipit_prefix_cache_collisions_total",
              "Number of lookups that found a block with an equal key but other tokens. The server "
              "does not use such a block.",
              ReadMetric(values.collisions));
  const auto state = [](const char* name, int32_t count) {
    return MetricSample{{{"state", name}}, static_cast<double>(count)};
  };
  const int32_t num_free = load.num_blocks - load.num_used_blocks - load.num_cached_blocks;
  out.Gauge("incipit_kv_blocks",
            "Number of blocks of keys and values, by state. used: held by requests. cached: in the "
            "prefix cache and held by no request. retained: like cached, but kept by the field "
            "cache.retention of a request. free: all other blocks.",
            {state("used", load.num_used_blocks),
             state("cached", load.num_cached_blocks - load.num_retained_blocks),
             state("retained", load.num_retained_blocks), state("free", num_free)});
  out.Gauge("incipit_kv_usage_ratio",
            "Number of cache blocks that requests hold, divided by the number of all cache blocks: "
            "from 0 to 1.",
            facts.used_ratio());
}

void WriteUnread(FamilyWriter& out, const UnreadOutput& unread) {
  const auto state = [](const char* name, int64_t num_bytes) {
    return MetricSample{{{"state", name}}, static_cast<double>(num_bytes)};
  };
  out.Gauge("incipit_unread_output_bytes",
            "Size of the output that clients have not read, by state. waiting: output that waits "
            "until a client has read earlier output. kept: output for responses that are not "
            "complete. sending: bytes of HTTP responses that wait for the operating system.",
            {state("waiting", unread.num_waiting_bytes), state("kept", unread.num_kept_bytes),
             state("sending", unread.num_sending_bytes)});
}

void WriteKvEvents(FamilyWriter& out, const MetricsValues& values) {
  out.Gauge("incipit_kv_event_subscribers",
            "Number of gateways that have subscribed to the events of the prefix cache.",
            static_cast<double>(ReadMetric(values.kv_event_subscribers)));
  const auto reader = [&](const char* name, KvEventGap gap) {
    return MetricSample{
        {{"reader", name}},
        static_cast<double>(ReadMetric(values.kv_event_gaps[static_cast<size_t>(gap)]))};
  };
  out.Counter("incipit_kv_event_gaps_total",
              "Number of times that a reader of the prefix cache's events was too slow and lost "
              "events, by reader. hub: the thread of the server that passes the events to "
              "gateways. subscriber: a gateway. A snapshot of the cache replaces the lost events.",
              {reader("hub", KvEventGap::kHub), reader("subscriber", KvEventGap::kSubscriber)});
}

void WriteSteps(FamilyWriter& out, const MetricsValues& values) {
  out.Histogram("incipit_step_duration_seconds", "Time that one step (batch) of the engine took.",
                values.step.Read());
  const auto part = [](const char* name, const std::atomic<double>& seconds) {
    return MetricSample{{{"part", name}}, ReadMetric(seconds)};
  };
  out.Counter("incipit_step_part_seconds_total",
              "Total time of all steps (batches), by part of a step: plan (choose the tokens), run "
              "(compute the model), commit (store the sampled tokens) or store (copy computed "
              "chunks to the memory of the disk cache).",
              {part("plan", values.plan_seconds), part("run", values.run_seconds),
               part("commit", values.commit_seconds), part("store", values.store_seconds)});
  out.Counter("incipit_arrival_pause_seconds_total",
              "Total duration of the pauses between steps (batches), in which the server waits for "
              "new requests after requests have ended (--arrival-pause-max).",
              {{{}, ReadMetric(values.pause_seconds)}});
  const auto kind = [](const char* name, const MetricsCounter& counter) {
    return MetricSample{{{"kind", name}}, static_cast<double>(ReadMetric(counter))};
  };
  out.Counter(
      "incipit_step_tokens_total",
      "Number of tokens that the model has computed, including tokens that were computed again "
      "after a preemption.",
      {kind("prefill", values.step_prefill_tokens), kind("decode", values.step_decode_tokens)});
}

void WriteInfo(FamilyWriter& out, const MetricsFacts& facts) {
  const ModelMetrics& model = facts.model;
  out.Gauge("incipit_build_info",
            "Always 1. The labels contain the version of Incipit and the compiler.",
            {{{{"version", INCIPIT_VERSION}, {"compiler", __VERSION__}}, 1}});
  out.Gauge("incipit_model_info", "Always 1. The labels describe the served model.",
            {{{{"model_name", model.name},
               {"architecture", model.architecture},
               {"dtype", model.dtype},
               {"kv_dtype", model.kv_dtype},
               {"backend", model.backend}},
              1}});
  out.Gauge("incipit_model_context_tokens",
            "Maximum number of tokens of prompt and output together.", model.max_model_len);
  out.Gauge("incipit_kv_block_size_tokens", "Number of tokens in one cache block.",
            model.block_size);
  out.Gauge("incipit_kv_capacity_blocks", "Number of all blocks of keys and values.",
            model.num_blocks);
  out.Gauge("incipit_start_time_seconds",
            "Start time of the process, in seconds since the Unix epoch.", facts.start_time);
}

}  // namespace

std::string MetricsText(const MetricsValues& values, const MetricsFacts& facts,
                        const MetricsOptions& options) {
  FamilyWriter ours({});
  WriteRequests(ours, values, facts.load);
  WriteLatencies(ours, values);
  WriteCacheTokens(ours, values, facts.load.hit_ratios);
  WriteCacheBlocks(ours, values, facts);
  WriteUnread(ours, facts.unread);
  WriteKvEvents(ours, values);
  WriteSteps(ours, values);
  WriteScheduling(ours, values, facts);
  if (facts.disk_cache) WriteDiskCache(ours, values, *facts.disk_cache);
  WriteInfo(ours, facts);
  std::string text = ours.Serialize();
  if (options.vllm_names) text += VllmMetricsText(values, facts);
  return text;
}

}  // namespace incipit
