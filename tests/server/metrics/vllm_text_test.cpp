#include "server/metrics/vllm_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "server/metrics/vllm_bounds.h"
#include "tests/server/metrics/metrics_fixture.h"

namespace incipit {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(VllmBoundsTest, TokenBoundsEndAtTheContext) {
  EXPECT_THAT(VllmTokenBounds(100), ElementsAre(1, 2, 5, 10, 20, 50, 100));
  EXPECT_THAT(VllmTokenBounds(99), ElementsAre(1, 2, 5, 10, 20, 50));
  EXPECT_THAT(VllmTokenBounds(0), ::testing::IsEmpty());
  EXPECT_EQ(VllmTokenBounds(std::numeric_limits<int32_t>::max()).back(), 2e9);
}

constexpr const char* kVllmLabels = "model_name=\"tiny \\\"model\\\"\",engine=\"0\"";

TEST(MetricsTest, TheNamesOfVllmHaveTheSameValues) {
  EXPECT_THAT(FilledMetrics(false)->Text(), Not(HasSubstr("vllm:")));
  const std::string text = FilledMetrics(true)->Text();
  const auto value = [&](const std::string& name, const std::string& labels = "") {
    return ValueOf(text, "vllm:" + name + "{" + labels + kVllmLabels + "}");
  };
  EXPECT_EQ(value("num_requests_running"), 3);
  EXPECT_EQ(value("num_requests_waiting"), 2);
  EXPECT_EQ(value("kv_cache_usage_perc"), 0.25);
  EXPECT_EQ(value("gpu_cache_usage_perc"), 0.25);
  EXPECT_EQ(value("prefix_cache_queries_total"), 150);
  EXPECT_EQ(value("gpu_prefix_cache_queries_total"), 150);
  EXPECT_EQ(value("prefix_cache_hits_total"), 64);
  EXPECT_EQ(value("gpu_prefix_cache_hits_total"), 64);
  EXPECT_EQ(value("gpu_prefix_cache_hit_rate"), 0.5);
  EXPECT_EQ(value("num_preemptions_total"), 6);
  EXPECT_EQ(value("prompt_tokens_total"), 150);
  EXPECT_EQ(value("generation_tokens_total"), 3);
  EXPECT_EQ(value("time_to_first_token_seconds_count"), 1);
  EXPECT_EQ(value("inter_token_latency_seconds_count"), 3);
  EXPECT_EQ(value("time_per_output_token_seconds_count"), 3);
  EXPECT_EQ(value("e2e_request_latency_seconds_sum"), 2);
  EXPECT_EQ(value("request_queue_time_seconds_count"), 2);
  EXPECT_EQ(value("request_prefill_time_seconds_count"), 1);
  EXPECT_EQ(value("request_decode_time_seconds_count"), 1);
  EXPECT_EQ(value("request_success_total", "finished_reason=\"abort\","), 1);
  EXPECT_EQ(value("cache_config_info", "block_size=\"16\",num_gpu_blocks=\"100\","), 1);
  const double now = value("lora_requests_info",
                           "max_lora=\"0\",running_lora_adapters=\"\",waiting_lora_adapters=\"\",");
  EXPECT_GE(now, ValueOf(text, "incipit_start_time_seconds"));
}

TEST(MetricsTest, TheNamesOfVllmDescribeARequestOnceAtItsEnd) {
  const std::string text = FilledMetrics(true)->Text();
  // Returns the value of a histogram with exactly one value, which is the histogram's sum.
  const auto one_value = [&](const std::string& name) {
    EXPECT_EQ(ValueOf(text, "vllm:" + name + "_count{" + kVllmLabels + "}"), 1) << name;
    return ValueOf(text, "vllm:" + name + "_sum{" + kVllmLabels + "}");
  };
  EXPECT_EQ(one_value("request_prompt_tokens"), 150);
  EXPECT_EQ(one_value("request_generation_tokens"), 70);
  EXPECT_EQ(one_value("request_max_num_generation_tokens"), 45);
  EXPECT_EQ(one_value("request_params_n"), 2);
  EXPECT_EQ(one_value("request_params_max_tokens"), 300);
  EXPECT_EQ(one_value("request_inference_time_seconds"), 1.5);
  EXPECT_EQ(one_value("request_time_per_output_token_seconds"), 0.05);
  EXPECT_EQ(one_value("iteration_tokens_total"), 87) << "one step";
}

// Returns the upper bounds of the buckets of `name`, without the last bound +Inf.
std::vector<double> BoundsServed(const std::string& text, const std::string& name) {
  std::vector<double> bounds;
  const std::regex bucket(name + "_bucket\\{.*le=\"([0-9.e+-]+)\"\\} [0-9]+");
  for (const std::string& line : LinesOf(text)) {
    std::smatch match;
    if (std::regex_match(line, match, bucket)) bounds.push_back(std::stod(match[1]));
  }
  return bounds;
}

TEST(MetricsTest, TheNamesOfVllmHaveTheBucketsOfVllm) {
  const std::string text = FilledMetrics(true)->Text();
  for (const char* const name :
       {"request_prompt_tokens", "request_generation_tokens", "request_max_num_generation_tokens",
        "request_params_max_tokens"}) {
    EXPECT_THAT(BoundsServed(text, std::string("vllm:") + name),
                ElementsAre(1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000))
        << name << ": the context has 2048 tokens";
  }
  EXPECT_THAT(BoundsServed(text, "vllm:iteration_tokens_total"),
              ElementsAre(1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384));
  EXPECT_THAT(BoundsServed(text, "vllm:request_params_n"), ElementsAre(1, 2, 5, 10, 20));
  for (const char* const name : {"inter_token_latency_seconds", "time_per_output_token_seconds",
                                 "request_time_per_output_token_seconds"}) {
    EXPECT_THAT(BoundsServed(text, std::string("vllm:") + name),
                ElementsAreArray({0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75,
                                  1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0}))
        << name;
  }
  for (const char* const name : {"e2e_request_latency", "request_queue_time", "request_decode_time",
                                 "request_prefill_time", "request_inference_time"}) {
    EXPECT_THAT(
        BoundsServed(text, std::string("vllm:") + name + "_seconds"),
        ElementsAreArray({0.3,  0.5,  0.8,  1.0,  1.5,   2.0,   2.5,   5.0,   10.0,   15.0,  20.0,
                          30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0}))
        << name;
  }
  EXPECT_THAT(
      BoundsServed(text, "vllm:time_to_first_token_seconds"),
      ElementsAreArray({0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,  0.25,  0.5,   0.75,
                        1.0,   2.5,   5.0,  7.5,  10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0}));
  // Incipit's own metrics keep their own bucket bounds.
  EXPECT_THAT(BoundsServed(text, "incipit_time_to_first_token_seconds"),
              ElementsAreArray(kLatencyBounds));
  EXPECT_THAT(BoundsServed(text, "incipit_step_duration_seconds"), ElementsAreArray(kStepBounds));
}

}  // namespace
}  // namespace incipit
