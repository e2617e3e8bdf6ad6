#include "server/metrics/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <thread>

#include "server/metrics/metrics_histogram.h"
#include "tests/server/metrics/metrics_fixture.h"

namespace incipit {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(MetricsHistogramTest, ABoundBelongsToItsBucketAndCountsAreCumulative) {
  constexpr std::array kBounds = {1.0, 2.0, 5.0};
  MetricsHistogram histogram(kBounds);
  for (const double value : {0.5, 1.0, 1.5, 5.0, 6.0}) histogram.Observe(value);
  histogram.Observe(2.0, 10);
  const auto snapshot = histogram.Read();
  EXPECT_THAT(snapshot.cumulative, ::testing::ElementsAre(2, 13, 14, 15));
  EXPECT_DOUBLE_EQ(snapshot.sum, 34);
}

TEST(MetricsHistogramTest, CountsAreReadForEachOfTwoListsOfBounds) {
  constexpr std::array kFine = {1.0, 2.0, 5.0};
  constexpr std::array kCoarse = {0.5, 2.0, 10.0};
  MetricsHistogram histogram(kFine, kCoarse);
  for (const double value : {0.5, 1.0, 1.5, 5.0, 7.0, 11.0}) histogram.Observe(value);
  EXPECT_THAT(histogram.Read().bounds, ::testing::ElementsAre(0.5, 1, 2, 5, 10));
  EXPECT_THAT(histogram.Read(kFine).cumulative, ::testing::ElementsAre(2, 3, 4, 6));
  EXPECT_THAT(histogram.Read(kCoarse).cumulative, ::testing::ElementsAre(1, 3, 5, 6));
  EXPECT_THAT(histogram.Read({}).cumulative, ::testing::ElementsAre(6));
  EXPECT_DOUBLE_EQ(histogram.Read(kCoarse).sum, 26);
}

TEST(MetricsTest, AStepMovesWhatItCounted) {
  const std::string text = FilledMetrics(false)->Text();
  EXPECT_EQ(ValueOf(text, "incipit_tokens_total{kind=\"prompt_computed\"}"), 86);
  EXPECT_EQ(ValueOf(text, "incipit_tokens_total{kind=\"prompt_cached\"}"), 64);
  EXPECT_EQ(ValueOf(text, "incipit_tokens_total{kind=\"generated\"}"), 3);
  EXPECT_EQ(ValueOf(text, "incipit_prefix_cache_queried_tokens_total"), 150);
  EXPECT_EQ(ValueOf(text, "incipit_prefix_cache_hit_tokens_total"), 64);
  EXPECT_EQ(ValueOf(text, "incipit_prefix_cache_requeried_tokens_total"), 30);
  EXPECT_EQ(ValueOf(text, "incipit_prefix_cache_rehit_tokens_total"), 16);
  EXPECT_EQ(ValueOf(text, "incipit_prefix_cache_stored_blocks_total"), 5);
  EXPECT_EQ(ValueOf(text, "incipit_prefix_cache_copied_tokens_total"), 13);
  EXPECT_EQ(ValueOf(text, "incipit_prefix_cache_regret_blocks_total"), 4);
  EXPECT_EQ(ValueOf(text, "incipit_prefix_cache_collisions_total"), 6);
  EXPECT_EQ(ValueOf(text, "incipit_preemptions_total{reason=\"head\"}"), 1);
  EXPECT_EQ(ValueOf(text, "incipit_preemptions_total{reason=\"share\"}"), 3);
  EXPECT_EQ(ValueOf(text, "incipit_preemptions_total{reason=\"decode\"}"), 2);
  EXPECT_EQ(ValueOf(text, "incipit_overtakes_total"), 9);
  EXPECT_EQ(ValueOf(text, "incipit_step_tokens_total{kind=\"prefill\"}"), 86);
  EXPECT_EQ(ValueOf(text, "incipit_step_tokens_total{kind=\"decode\"}"), 1);
  EXPECT_DOUBLE_EQ(ValueOf(text, "incipit_step_part_seconds_total{part=\"run\"}"), 0.003);
  EXPECT_DOUBLE_EQ(ValueOf(text, "incipit_step_part_seconds_total{part=\"store\"}"), 0.00004);
  EXPECT_DOUBLE_EQ(ValueOf(text, "incipit_arrival_pause_seconds_total"), 0.0015);
  EXPECT_EQ(ValueOf(text, "incipit_step_duration_seconds_count"), 1);
  EXPECT_EQ(ValueOf(text, "incipit_request_queue_seconds_bucket{le=\"0.005\"}"), 1);
  EXPECT_EQ(ValueOf(text, "incipit_request_queue_seconds_bucket{le=\"2\"}"), 2);
}

TEST(MetricsTest, EvictionsAreCountedByReasonWithAgeAndIdleTime) {
  const std::string text = FilledMetrics(false)->Text();
  const std::string name = "incipit_prefix_cache_evictions_total";
  EXPECT_EQ(ValueOf(text, name + "{reason=\"capacity\"}"), 3);
  EXPECT_EQ(ValueOf(text, name + "{reason=\"priority\"}"), 2);
  EXPECT_EQ(ValueOf(text, name + "{reason=\"ttl\"}"), 1);
  EXPECT_EQ(ValueOf(text, name + "{reason=\"reset\"}"), 7);
  const std::string age = "incipit_prefix_cache_eviction_age_seconds";
  EXPECT_EQ(ValueOf(text, age + "_bucket{le=\"0.064\"}"), 1);
  EXPECT_EQ(ValueOf(text, age + "_bucket{le=\"16.384\"}"), 1);
  EXPECT_EQ(ValueOf(text, age + "_bucket{le=\"65.536\"}"), 2);
  EXPECT_EQ(ValueOf(text, age + "_bucket{le=\"268435.456\"}"), 2);
  EXPECT_EQ(ValueOf(text, age + "_count"), 3);
  EXPECT_EQ(ValueOf(text, "incipit_prefix_cache_eviction_idle_seconds_sum"), 20.5);
}

TEST(MetricsTest, TheSizeOfTheCacheIsServed) {
  const std::string text = FilledMetrics(false)->Text();
  EXPECT_EQ(ValueOf(text, "incipit_kv_capacity_blocks"), 100);
  EXPECT_EQ(ValueOf(text, "incipit_kv_block_size_tokens"), 16);
}

TEST(MetricsTest, WaitsAreServedByReasonAndTenant) {
  const std::string text = FilledMetrics(false)->Text();
  const auto seconds = [&](const std::string& reason, const std::string& tenant) {
    return ValueOf(text, "incipit_request_wait_seconds_total{reason=\"" + reason + "\",tenant=\"" +
                             tenant + "\"}");
  };
  EXPECT_DOUBLE_EQ(seconds("share", "silver"), 0.001);
  EXPECT_DOUBLE_EQ(seconds("room", "silver"), 0.003);
  EXPECT_DOUBLE_EQ(seconds("prefix", "silver"), 0);
  EXPECT_DOUBLE_EQ(seconds("share", "other"), 0.5);
  EXPECT_DOUBLE_EQ(seconds("prefix", "other"), 1.5);
  EXPECT_DOUBLE_EQ(seconds("share", "gold"), 0);
}

TEST(MetricsTest, DeferralsAreServedByReason) {
  const std::string text = FilledMetrics(false)->Text();
  const std::string name = "incipit_deferrals_total";
  EXPECT_EQ(ValueOf(text, name + "{reason=\"room\"}"), 4);
  EXPECT_EQ(ValueOf(text, name + "{reason=\"slots\"}"), 8);
  EXPECT_EQ(ValueOf(text, name + "{reason=\"tokens\"}"), 15);
  EXPECT_EQ(ValueOf(text, name + "{reason=\"prefix\"}"), 16);
  EXPECT_EQ(ValueOf(text, name + "{reason=\"load\"}"), 23);
  EXPECT_EQ(ValueOf(text, name + "{reason=\"order\"}"), 42);
}

TEST(MetricsTest, RefusalsBecauseOfTheLoadAreServedByTenant) {
  const auto metrics = FilledMetrics(false);
  metrics->OnRequestRejected(Reason::kQueueTooLong, "gold");
  metrics->OnRequestRejected(Reason::kTextQueueFull, "nobody");
  metrics->OnRequestRejected(Reason::kInvalidField, "gold");
  const std::string text = metrics->Text();
  const auto refusals = [&](const std::string& reason, const std::string& tenant) {
    return ValueOf(
        text, "incipit_tenant_refusals_total{reason=\"" + reason + "\",tenant=\"" + tenant + "\"}");
  };
  EXPECT_EQ(refusals("queue_full", "silver"), 1);
  EXPECT_EQ(refusals("queue_full", "gold"), 0);
  EXPECT_EQ(refusals("queue_full", "other"), 1);
  EXPECT_EQ(refusals("queue_too_long", "gold"), 1);
  EXPECT_EQ(refusals("too_late", "gold"), 3);
  EXPECT_EQ(refusals("too_late", "silver"), 5);
  EXPECT_EQ(refusals("too_late", "other"), 8);
}

TEST(MetricsTest, OnlyReportedTenantsHaveALabel) {
  const std::string text = FilledMetrics(false)->Text();
  const std::string name = "incipit_tenant_service_total";
  EXPECT_EQ(ValueOf(text, name + "{tenant=\"gold\"}"), 100);
  EXPECT_EQ(ValueOf(text, name + "{tenant=\"silver\"}"), 50.5);
  EXPECT_EQ(ValueOf(text, name + "{tenant=\"other\"}"), 7);
  const auto is_service = [&](const std::string& line) { return line.starts_with(name + "{"); };
  EXPECT_EQ(std::ranges::count_if(LinesOf(text), is_service), 3);
  EXPECT_EQ(std::ranges::count_if(LinesOf(Metrics({}).Text()), is_service), 1);
}

TEST(MetricsTest, UnreadOutputIsServedByState) {
  const auto metrics = FilledMetrics(false);
  const std::string name = "incipit_unread_output_bytes";
  EXPECT_EQ(ValueOf(metrics->Text(), name + "{state=\"waiting\"}"), 1000);
  EXPECT_EQ(ValueOf(metrics->Text(), name + "{state=\"kept\"}"), 200);
  EXPECT_EQ(ValueOf(metrics->Text(), name + "{state=\"sending\"}"), 30);
  metrics->SetUnreadSource(nullptr);
  EXPECT_EQ(ValueOf(metrics->Text(), name + "{state=\"waiting\"}"), 1000) << "the last value";
}

TEST(MetricsTest, AStepThatComputedNothingIsNotTimed) {
  Metrics metrics({});
  StepOfThreeTokens step;
  step.stats.num_tokens = 0;
  metrics.OnStep(step.events());
  EXPECT_EQ(ValueOf(metrics.Text(), "incipit_step_duration_seconds_count"), 0);
  EXPECT_EQ(ValueOf(metrics.Text(), "incipit_preemptions_total{reason=\"decode\"}"), 2);
}

TEST(MetricsTest, RequestsCountByHowTheyEnded) {
  const std::string text = FilledMetrics(false)->Text();
  EXPECT_EQ(ValueOf(text, "incipit_requests_total{outcome=\"ok\",finish_reason=\"stop\"}"), 1);
  EXPECT_EQ(ValueOf(text, "incipit_requests_total{outcome=\"ok\",finish_reason=\"length\"}"), 0);
  EXPECT_EQ(ValueOf(text, "incipit_requests_total{outcome=\"cancelled\",finish_reason=\"none\"}"),
            1);
  EXPECT_EQ(ValueOf(text, "incipit_request_duration_seconds_count"), 2);
  EXPECT_EQ(ValueOf(text, "incipit_request_prefill_seconds_count"), 1)
      << "the cancelled request never finished its prefill";
  EXPECT_EQ(ValueOf(text, "incipit_request_decode_seconds_bucket{le=\"2\"}"), 1);
  EXPECT_EQ(ValueOf(text, "incipit_time_to_first_token_seconds_bucket{le=\"0.2\"}"), 0);
  EXPECT_EQ(ValueOf(text, "incipit_time_to_first_token_seconds_bucket{le=\"0.3\"}"), 1);
  EXPECT_EQ(ValueOf(text, "incipit_inter_token_latency_seconds_count"), 3);
}

TEST(MetricsTest, GaugesSayWhatTheEngineHoldsAtTheScrape) {
  Metrics metrics({});
  EngineLoad load = SomeLoad();
  metrics.SetLoadSource([&] { return load; });
  EXPECT_EQ(ValueOf(metrics.Text(), "incipit_requests_running"), 3);
  EXPECT_EQ(ValueOf(metrics.Text(), "incipit_requests_waiting"), 2);
  EXPECT_EQ(ValueOf(metrics.Text(), "incipit_waiting_prompt_tokens"), 700);
  EXPECT_EQ(ValueOf(metrics.Text(), "incipit_kv_blocks{state=\"used\"}"), 25);
  EXPECT_EQ(ValueOf(metrics.Text(), "incipit_kv_blocks{state=\"cached\"}"), 9);
  EXPECT_EQ(ValueOf(metrics.Text(), "incipit_kv_blocks{state=\"retained\"}"), 6);
  EXPECT_EQ(ValueOf(metrics.Text(), "incipit_kv_blocks{state=\"free\"}"), 60);
  EXPECT_EQ(ValueOf(metrics.Text(), "incipit_kv_usage_ratio"), 0.25);
  const std::string ratio = "incipit_prefix_cache_hit_ratio";
  EXPECT_EQ(ValueOf(metrics.Text(), ratio + "{window=\"1m\"}"), 0.25);
  EXPECT_EQ(ValueOf(metrics.Text(), ratio + "{window=\"10m\"}"), 0.5);
  EXPECT_EQ(ValueOf(metrics.Text(), ratio + "{window=\"1h\"}"), 0.75);
  EXPECT_EQ(ValueOf(metrics.Text(), ratio + "_alarm"), 1);
  EXPECT_EQ(ValueOf(metrics.Text(), "incipit_active_tenants"), 4);
  EXPECT_EQ(ValueOf(metrics.Text(), "incipit_tenant_service_gap"), 12.5);
  const std::string error = "incipit_step_time_error_ratio";
  EXPECT_EQ(ValueOf(metrics.Text(), error + "{class=\"decode\"}"), 0.125);
  EXPECT_EQ(ValueOf(metrics.Text(), error + "{class=\"mixed\"}"), 0.25);
  EXPECT_EQ(ValueOf(metrics.Text(), error + "{class=\"prefill\"}"), 0.5);
  load.hit_ratios.decayed = false;
  EXPECT_EQ(ValueOf(metrics.Text(), ratio + "_alarm"), 0);
  load.num_running = 0;
  EXPECT_EQ(ValueOf(metrics.Text(), "incipit_requests_running"), 0);
  metrics.SetLoadSource(nullptr);
  load.num_running = 9;
  EXPECT_EQ(ValueOf(metrics.Text(), "incipit_requests_running"), 0) << "the last answer stays";
}

TEST(MetricsTest, TheDiskCacheHasMetricsOnlyIfThereIsOne) {
  Metrics without({});
  EXPECT_THAT(without.Text(), Not(HasSubstr("incipit_disk_cache")));
  const std::string text = FilledMetrics(false)->Text();
  const auto value = [&](const std::string& name) {
    return ValueOf(text, "incipit_disk_cache_" + name);
  };
  EXPECT_EQ(value("state{state=\"off\"}"), 1);
  EXPECT_EQ(value("state{state=\"on\"}"), 0);
  EXPECT_EQ(value("failures_total"), 1);
  EXPECT_EQ(value("bytes"), 9000);
  EXPECT_EQ(value("chunks"), 8);
  EXPECT_EQ(value("pending{kind=\"store\"}"), 2);
  EXPECT_EQ(value("staging_bytes"), 4096);
  EXPECT_EQ(value("loads_total{result=\"hit\"}"), 5);
  EXPECT_EQ(value("loads_total{result=\"error\"}"), 2);
  EXPECT_EQ(value("rejected_chunks_total{reason=\"checksum\"}"), 3);
  EXPECT_EQ(value("waits_total"), 6);
  EXPECT_EQ(value("failed_waits_total"), 2);
  EXPECT_EQ(value("read_bytes_total"), 5000);
  EXPECT_EQ(value("stored_chunks_total"), 7);
  EXPECT_EQ(value("written_bytes_total"), 7000);
  EXPECT_EQ(value("dropped_stores_total{reason=\"write_budget\"}"), 4);
  EXPECT_EQ(value("removed_chunks_total{reason=\"reclaimed\"}"), 6);
  EXPECT_EQ(value("load_seconds_bucket{le=\"0.000128\"}"), 1);
  EXPECT_EQ(value("load_seconds_bucket{le=\"0.004096\"}"), 2);
  EXPECT_EQ(value("load_seconds_bucket{le=\"+Inf\"}"), 3);
  EXPECT_NEAR(value("load_seconds_sum"), 120.0031, 1e-6);
}

TEST(MetricsTest, EveryReasonHasALabelAndAddsNoSeries) {
  Metrics metrics({});
  const size_t num_lines = LinesOf(metrics.Text()).size();
  for (int i = 0; i <= static_cast<int>(Reason::kCannotResume); ++i) {
    metrics.OnRequestRejected(static_cast<Reason>(i), "a client's name");
  }
  const std::string text = metrics.Text();
  EXPECT_EQ(LinesOf(text).size(), num_lines);
  EXPECT_EQ(ValueOf(text, "incipit_requests_rejected_total{reason=\"queue_full\"}"), 2);
  EXPECT_EQ(ValueOf(text, "incipit_requests_rejected_total{reason=\"queue_too_long\"}"), 1);
  EXPECT_EQ(ValueOf(text, "incipit_requests_rejected_total{reason=\"draining\"}"), 1);
}

TEST(MetricsTest, ThreadsCountTogetherWithoutLosingAny) {
  Metrics metrics({});
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 1000; ++j) {
        metrics.OnInterTokenLatency(0.5, 2);
        metrics.OnRequestRejected(Reason::kInternal);
        if (j % 100 == 0) {
          EXPECT_THAT(metrics.Text(), HasSubstr("incipit_build_info"));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::string text = metrics.Text();
  EXPECT_EQ(ValueOf(text, "incipit_inter_token_latency_seconds_sum"), 4000);
  EXPECT_EQ(ValueOf(text, "incipit_requests_rejected_total{reason=\"internal\"}"), 4000);
}

}  // namespace
}  // namespace incipit
