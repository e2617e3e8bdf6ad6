// Creates metrics with known values, and reads values from the text of /metrics.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "server/metrics/metrics.h"

namespace incipit {

inline std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Returns the value of the sample `sample` in `text`, the text of /metrics. `sample` is a metric
// name with its labels.
inline double ValueOf(const std::string& text, const std::string& sample) {
  for (const std::string& line : LinesOf(text)) {
    if (line.starts_with(sample + " ")) return std::stod(line.substr(sample.size()));
  }
  ADD_FAILURE() << sample << " is not served";
  return -1;
}

inline ModelMetrics TinyModel() {
  return {.name = "tiny \"model\"",
          .architecture = "LlamaForCausalLM",
          .dtype = "bf16",
          .kv_dtype = "bf16",
          .backend = "cpu",
          .max_model_len = 2048,
          .block_size = 16,
          .num_blocks = 100};
}

// The statistics of one step with three tokens, and the arrays to which the statistics point.
struct StepOfThreeTokens {
  std::vector<AdmissionEvent> admissions = {
      {.request = RequestId{1},
       .num_prompt_tokens = 100,
       .num_cached_tokens = 64,
       .queue_time = std::chrono::milliseconds(4),
       .waits = {std::chrono::milliseconds(1), std::chrono::milliseconds(3)},
       .reported_tenant = 1},
      {.request = RequestId{2},
       .num_prompt_tokens = 50,
       .queue_time = std::chrono::seconds(2),
       .waits = {std::chrono::milliseconds(500), {}, std::chrono::milliseconds(1500)},
       .reported_tenant = kReportedTenantsMax},
  };
  std::vector<TokenEvent> tokens = {{RequestId{1}, 0, 5, -1, std::nullopt},
                                    {RequestId{2}, 0, 0, -1, std::nullopt},
                                    {RequestId{3}, 0, 7, -1, FinishReason::kStop},
                                    {RequestId{4}, 0, -1, -1, FinishReason::kCancelled}};
  Logprobs none;
  StepStats stats;

  StepOfThreeTokens() {
    stats.plan = std::chrono::microseconds(10);
    stats.run = std::chrono::milliseconds(3);
    stats.commit = std::chrono::microseconds(20);
    stats.store = std::chrono::microseconds(40);
    stats.pause = std::chrono::microseconds(1500);
    stats.num_tokens = 87;
    stats.num_prefill_tokens = 86;
    stats.num_decode_tokens = 1;
    stats.scheduler.preemptions = {1, 3, 2};
    stats.scheduler.deferrals = {4, 8, 15, 16, 23, 42};
    stats.scheduler.too_late = {3, 5};
    stats.scheduler.too_late.back() = 8;
    stats.scheduler.overtakes = 9;
    stats.scheduler.loads = 6;
    stats.scheduler.failed_loads = 2;
    stats.scheduler.services = {100, 50.5};
    stats.scheduler.services.back() = 7;
    stats.cache.query_tokens = 150;
    stats.cache.hit_tokens = 64;
    stats.cache.self_query_tokens = 30;
    stats.cache.self_hit_tokens = 16;
    stats.cache.stored_blocks = 5;
    stats.cache.copied_tokens = 13;
    stats.cache.regret_blocks = 4;
    stats.cache.collisions = 6;
    stats.cache.evictions.by_reason = {3, 2, 1, 7};
    for (const uint32_t ms : {64u, 40'000u, 4'000'000'000u}) stats.cache.evictions.age.Add(ms);
    stats.cache.evictions.idle.Add(20'500);
  }
  StepEvents events() const { return {admissions, {}, tokens, none, none, stats}; }
};

inline EngineLoad SomeLoad() {
  EngineLoad load;
  load.num_running = 3;
  load.num_waiting = 2;
  load.num_waiting_prompt_tokens = 700;
  load.num_blocks = 100;
  load.num_used_blocks = 25;
  load.num_cached_blocks = 15;
  load.num_retained_blocks = 6;
  load.hit_ratios = {.minute = 0.25, .ten_minutes = 0.5, .hour = 0.75, .decayed = true};
  load.block_size = 16;
  load.scheduler = {
      .num_active_tenants = 4, .service_gap = 12.5, .step_time_errors = {0.125, 0.25, 0.5}};
  return load;
}

inline TierStats SomeTierStats() {
  TierStats stats;
  stats.hits = 5;
  stats.load_errors = 2;
  stats.rejected[static_cast<size_t>(RejectReason::kChecksum)] = 3;
  stats.bytes_loaded = 5000;
  stats.load_latency.Add(std::chrono::microseconds(100));
  stats.load_latency.Add(std::chrono::milliseconds(3));
  stats.load_latency.Add(std::chrono::minutes(2));
  stats.chunks_stored = 7;
  stats.bytes_stored = 7000;
  stats.dropped[static_cast<size_t>(StoreDrop::kWriteBudget)] = 4;
  stats.chunks_reclaimed = 6;
  stats.times_turned_off = 1;
  stats.state = TierState::kOff;
  stats.bytes_used = 9000;
  stats.chunks = 8;
  stats.stores_pending = 2;
  stats.staging_bytes_used = 4096;
  return stats;
}

inline std::unique_ptr<Metrics> FilledMetrics(bool vllm_names) {
  auto metrics = std::make_unique<Metrics>(MetricsOptions{.vllm_names = vllm_names});
  metrics->SetModelInfo(TinyModel());
  metrics->SetReportedTenants({"gold", "silver"});
  metrics->SetLoadSource(SomeLoad);
  metrics->SetUnreadSource([] {
    return UnreadOutput{.num_waiting_bytes = 1000, .num_kept_bytes = 200, .num_sending_bytes = 30};
  });
  metrics->SetDiskCacheSource(SomeTierStats);
  metrics->OnStep(StepOfThreeTokens().events());
  metrics->OnGeneratedTokens(3);
  metrics->OnFirstToken(0.25);
  metrics->OnInterTokenLatency(0.004, 3);
  metrics->OnRequestFinished({.finish = FinishReason::kStop,
                              .total_seconds = 1.5,
                              .prefill_seconds = 0.25,
                              .decode_seconds = 1.25,
                              .inter_token_seconds = 0.05,
                              .sizes = RequestSizes{.num_prompt_tokens = 150,
                                                    .num_choices = 2,
                                                    .output_tokens_max = 300,
                                                    .num_output_tokens = 70,
                                                    .longest_output_tokens = 45}});
  metrics->OnRequestFinished({.finish = FinishReason::kCancelled, .total_seconds = 0.5});
  metrics->OnRequestRejected(Reason::kQueueFull, "silver");
  return metrics;
}

// Maps the name of each metric to its type and its label names, as "type label label ...". The
// labels are sorted.
using Families = std::map<std::string, std::string>;

inline Families FamiliesServed(const std::string& text) {
  std::map<std::string, std::string> types;
  std::map<std::string, std::set<std::string>> labels;
  const std::regex label_pattern("([a-z_]+)=\"(?:[^\"\\\\]|\\\\.)*\"");
  std::string name;
  for (const std::string& line : LinesOf(text)) {
    if (line.starts_with("# TYPE ")) {
      std::istringstream stream(line.substr(7));
      std::string type;
      stream >> name >> type;
      types[name] = type;
    }
    if (line.starts_with("#") || !line.starts_with(name)) continue;
    for (std::sregex_iterator it(line.begin(), line.end(), label_pattern), end; it != end; ++it) {
      if ((*it)[1] != "le") labels[name].insert((*it)[1]);
    }
  }
  Families families;
  for (const auto& [family, type] : types) {
    families[family] = type;
    for (const std::string& label : labels[family]) families[family] += " " + label;
  }
  return families;
}

}  // namespace incipit
