#include "server/metrics/metrics.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/check.h"
#include "base/mutex.h"
#include "server/http/http_server.h"
#include "server/metrics/metrics_values.h"
#include "server/metrics/prometheus_text.h"

namespace incipit {
namespace {

void Add(MetricsCounter& counter, int64_t count) {
  if (count != 0) counter.fetch_add(count, std::memory_order_relaxed);
}
void Add(std::atomic<double>& total, double value) {
  if (value != 0) total.fetch_add(value, std::memory_order_relaxed);
}

void Add(const AgeHistogram& ages, MetricsHistogram& histogram) {
  histogram.Add(ages.counts, static_cast<double>(ages.sum_ms) * 1e-3);
}

void AddCache(const KvCacheStats& stats, MetricsValues& values) {
  Add(values.queried_tokens, stats.query_tokens);
  Add(values.hit_tokens, stats.hit_tokens);
  Add(values.copied_tokens, stats.copied_tokens);
  Add(values.requeried_tokens, stats.self_query_tokens);
  Add(values.rehit_tokens, stats.self_hit_tokens);
  Add(values.stored_blocks, stats.stored_blocks);
  Add(values.regret_blocks, stats.regret_blocks);
  Add(values.collisions, stats.collisions);
  if (stats.evictions.total() == 0) return;
  for (size_t i = 0; i < kNumEvictionReasons; ++i) {
    Add(values.evictions[i], stats.evictions.by_reason[i]);
  }
  Add(stats.evictions.age, values.eviction_age);
  Add(stats.evictions.idle, values.eviction_idle);
}

void AddScheduler(const SchedulerCounts& counts, MetricsValues& values) {
  for (size_t i = 0; i < kNumPreemptionReasons; ++i) {
    Add(values.preemptions[i], counts.preemptions[i]);
  }
  for (size_t i = 0; i < kNumDeferralReasons; ++i) Add(values.deferrals[i], counts.deferrals[i]);
  Add(values.overtakes, counts.overtakes);
  Add(values.load_waits, counts.loads);
  Add(values.failed_load_waits, counts.failed_loads);
  for (size_t i = 0; i < counts.services.size(); ++i) {
    Add(values.tenant_services[i], counts.services[i]);
    Add(values.tenant_refusals[i][static_cast<size_t>(TenantRefusal::kTooLate)],
        counts.too_late[i]);
  }
}

double SecondsSinceEpoch() { return std::chrono::duration<double>(UnixTime()).count(); }

HttpResponse PlainError(int status, std::string_view message) {
  return {.status = status,
          .content_type = "text/plain; charset=utf-8",
          .body = std::string(message) + "\n",
          .closes = true};
}

std::optional<HttpResponse> CheckScrape(const HttpRequestHead& head) {
  if (head.path() != "/metrics") return PlainError(404, "this port serves only the path /metrics");
  if (head.method == "GET" || head.method == "HEAD") return std::nullopt;
  HttpResponse wrong = PlainError(405, "the path /metrics accepts only the methods GET and HEAD");
  wrong.fields.emplace_back("Allow", "GET, HEAD");
  return wrong;
}

}  // namespace

class Metrics::State {
 public:
  explicit State(MetricsOptions options) : options_(options) {
    facts_.start_time = SecondsSinceEpoch();
  }

  void SetModelInfo(const ModelMetrics& model) {
    const MutexLock lock(mutex_);
    facts_.model = model;
  }

  void SetReportedTenants(std::vector<std::string> names) { reported_tenants_ = std::move(names); }

  // Returns the index of the tenant `name` in PerTenant.
  size_t ReportedIndexOf(std::string_view name) const {
    const auto found = std::ranges::find(reported_tenants_, name);
    if (found == reported_tenants_.end()) return kReportedTenantsMax;
    return static_cast<size_t>(found - reported_tenants_.begin());
  }

  void SetLoadSource(std::function<EngineLoad()> source) {
    const MutexLock lock(mutex_);
    if (!source && load_source_) facts_.load = load_source_();
    load_source_ = std::move(source);
  }

  void SetUnreadSource(std::function<UnreadOutput()> source) {
    const MutexLock lock(mutex_);
    if (!source && unread_source_) facts_.unread = unread_source_();
    unread_source_ = std::move(source);
  }
  void SetDiskCacheSource(std::function<TierStats()> source) {
    const MutexLock lock(mutex_);
    disk_cache_source_ = std::move(source);
  }

  std::string Text() {
    MetricsFacts facts;
    {
      // Keep `mutex_` locked during the calls of `load_source_` and `unread_source_`, so that
      // SetLoadSource and SetUnreadSource cannot replace these functions while they run.
      const MutexLock lock(mutex_);
      if (load_source_) facts_.load = load_source_();
      if (unread_source_) facts_.unread = unread_source_();
      if (disk_cache_source_) facts_.disk_cache = disk_cache_source_();
      facts = facts_;
    }
    facts.reported_tenants = reported_tenants_;
    facts.time = SecondsSinceEpoch();
    return MetricsText(values, facts, options_);
  }

  MetricsValues values;

 private:
  const MetricsOptions options_;
  std::vector<std::string> reported_tenants_;  // constant after SetReportedTenants
  Mutex mutex_;
  MetricsFacts facts_ ABSL_GUARDED_BY(mutex_);
  std::function<EngineLoad()> load_source_ ABSL_GUARDED_BY(mutex_);
  std::function<UnreadOutput()> unread_source_ ABSL_GUARDED_BY(mutex_);
  std::function<TierStats()> disk_cache_source_ ABSL_GUARDED_BY(mutex_);
};

Metrics::Metrics(MetricsOptions options) : state_(std::make_unique<State>(options)) {}
Metrics::~Metrics() = default;

void Metrics::SetModelInfo(const ModelMetrics& model) { state_->SetModelInfo(model); }
void Metrics::SetReportedTenants(std::vector<std::string> names) {
  state_->SetReportedTenants(std::move(names));
}
void Metrics::SetLoadSource(std::function<EngineLoad()> source) {
  state_->SetLoadSource(std::move(source));
}
void Metrics::SetUnreadSource(std::function<UnreadOutput()> source) {
  state_->SetUnreadSource(std::move(source));
}

void Metrics::SetDiskCacheSource(std::function<TierStats()> source) {
  state_->SetDiskCacheSource(std::move(source));
}

void Metrics::OnStep(const StepEvents& events) {
  MetricsValues& values = state_->values;
  for (const AdmissionEvent& admission : events.admissions) {
    values.queue.Observe(ToSeconds(admission.queue_time));
    for (size_t i = 0; i < kNumWaitReasons; ++i) {
      Add(values.wait_seconds[admission.reported_tenant][i], ToSeconds(admission.waits[i]));
    }
    Add(values.prompt_cached_tokens, admission.num_cached_tokens);
    Add(values.loaded_tokens, admission.num_loaded_tokens);
    Add(values.prompt_computed_tokens, admission.num_prompt_tokens - admission.num_cached_tokens);
  }
  const StepStats& stats = events.stats;
  AddScheduler(stats.scheduler, values);
  AddCache(stats.cache, values);
  // If `num_tokens` is 0, `events` report no step (batch), so the metrics of steps do not change.
  if (stats.num_tokens == 0) return;
  Add(values.step_prefill_tokens, stats.num_prefill_tokens);
  Add(values.step_decode_tokens, stats.num_decode_tokens);
  Add(values.plan_seconds, ToSeconds(stats.plan));
  Add(values.run_seconds, ToSeconds(stats.run));
  Add(values.commit_seconds, ToSeconds(stats.commit));
  Add(values.store_seconds, ToSeconds(stats.store));
  Add(values.pause_seconds, ToSeconds(stats.pause));
  values.step.Observe(ToSeconds(stats.plan + stats.run + stats.commit + stats.store));
  values.step_tokens.Observe(stats.num_tokens);
}

void Metrics::OnGeneratedTokens(int64_t num_tokens) {
  Add(state_->values.generated_tokens, num_tokens);
}

int64_t Metrics::num_generated_tokens() const { return state_->values.generated_tokens.load(); }

int64_t Metrics::num_evicted_blocks() const {
  int64_t num_blocks = 0;
  for (const MetricsCounter& counter : state_->values.evictions) num_blocks += counter.load();
  return num_blocks;
}

int64_t Metrics::num_regret_blocks() const { return state_->values.regret_blocks.load(); }

void Metrics::SetKvEventSubscribers(int64_t num_subscribers) {
  state_->values.kv_event_subscribers = num_subscribers;
}

void Metrics::OnKvEventGap(KvEventGap gap) {
  Add(state_->values.kv_event_gaps[static_cast<size_t>(gap)], 1);
}

void Metrics::OnRequestRejected(Reason reason, std::string_view tenant) {
  MetricsValues& values = state_->values;
  const RejectionLabel label = LabelOf(reason);
  Add(values.rejected[static_cast<size_t>(label)], 1);
  auto& refusals = values.tenant_refusals[state_->ReportedIndexOf(tenant)];
  if (label == RejectionLabel::kQueueFull) {
    Add(refusals[static_cast<size_t>(TenantRefusal::kQueueFull)], 1);
  } else if (label == RejectionLabel::kQueueTooLong) {
    Add(refusals[static_cast<size_t>(TenantRefusal::kQueueTooLong)], 1);
  }
}

void Metrics::OnFirstToken(double seconds_since_arrival) {
  state_->values.first_token.Observe(seconds_since_arrival);
}

void Metrics::OnInterTokenLatency(double seconds, int64_t num_tokens) {
  state_->values.inter_token.Observe(seconds, num_tokens);
}

void Metrics::OnRequestFinished(const RequestOutcome& outcome) {
  MetricsValues& values = state_->values;
  const auto index = static_cast<size_t>(outcome.finish);
  INCIPIT_CHECK(index < kNumFinishReasons);
  Add(values.finished[index], 1);
  values.total.Observe(outcome.total_seconds);
  if (outcome.prefill_seconds) values.prefill.Observe(*outcome.prefill_seconds);
  if (outcome.decode_seconds) values.decode.Observe(*outcome.decode_seconds);
  if (outcome.prefill_seconds && outcome.decode_seconds) {
    values.inference.Observe(*outcome.prefill_seconds + *outcome.decode_seconds);
  }
  if (outcome.inter_token_seconds) {
    values.request_inter_token.Observe(*outcome.inter_token_seconds);
  }
  if (!outcome.sizes) return;
  const RequestSizes& sizes = *outcome.sizes;
  values.request_choices.Observe(sizes.num_choices);
  values.request_prompt_tokens.Observe(sizes.num_prompt_tokens);
  values.request_output_tokens.Observe(static_cast<double>(sizes.num_output_tokens));
  values.longest_output_tokens.Observe(static_cast<double>(sizes.longest_output_tokens));
  values.request_output_tokens_max.Observe(sizes.output_tokens_max);
}

absl::StatusOr<int> Metrics::Start(const HostPort& address) {
  HttpServerOptions options;
  options.connections_max = kScrapersMax;
  options.limits = {.head_bytes_max = 8192,
                    .body_bytes_max = 0,
                    .head_time_max = std::chrono::seconds(5),
                    .write_time_max = std::chrono::seconds(5)};
  HttpHandlers handlers;
  handlers.check = CheckScrape;
  handlers.handle = [this](const std::shared_ptr<HttpExchange>& exchange) {
    exchange->Respond({.content_type = std::string(kMetricsContentType), .body = Text()});
  };
  handlers.error = PlainError;
  auto server = HttpServer::Start("metrics-address", address, options, std::move(handlers));
  if (!server.ok()) return server.status();
  server_ = *std::move(server);
  return server_->port();
}

std::string Metrics::Text() const { return state_->Text(); }

}  // namespace incipit
