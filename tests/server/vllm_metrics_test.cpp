// Tests the metrics with names of vLLM, read from a server after requests of known sizes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>

#include "tests/server/test_server.h"

namespace incipit {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int32_t kContext = 64;
const std::string kLabels = "model_name=\"fake\",engine=\"0\"";

std::vector<TokenId> PromptOf(int32_t num_tokens, TokenId first) {
  std::vector<TokenId> prompt;
  for (int32_t i = 0; i < num_tokens; ++i) prompt.push_back(first + i);
  return prompt;
}

// A server that has served three requests with prompts of 8, 20 and 40 tokens.
class VllmMetricsTest : public ::testing::Test {
 protected:
  VllmMetricsTest() : server_(Config()) {
    v1::GenerateRequest two_choices = Greedy(PromptOf(8, 10), 5);
    two_choices.mutable_output()->set_n(2);
    for (const v1::GenerateRequest& request :
         {two_choices, Greedy(PromptOf(20, 50), 24), Greedy(PromptOf(40, 100), 0)}) {
      const Reply reply = Ask(server_.inference(), request);
      EXPECT_TRUE(reply.status.ok()) << reply.status.error_message();
    }
    v1::GenerateRequest bad = Greedy(PromptOf(8, 10), 5);
    bad.mutable_sampling()->set_temperature(-1);
    EXPECT_FALSE(Ask(server_.inference(), bad).status.ok());
  }
  static TestServerConfig Config() {
    TestServerConfig config;
    config.max_model_len = kContext;
    return config;
  }

  double Value(const std::string& name, const std::string& labels = "") const {
    return server_.Metric("vllm:" + name + "{" + labels + kLabels + "}");
  }
  // Returns the number of values of the histogram `name` that are at most `bound`.
  double NumBelow(const std::string& name, const std::string& bound) const {
    return server_.Metric("vllm:" + name + "_bucket{" + kLabels + ",le=\"" + bound + "\"}");
  }

  TestServer server_;
};

TEST_F(VllmMetricsTest, EachRequestCountsOnceWithItsSizes) {
  EXPECT_EQ(Value("request_prompt_tokens_count"), 3);
  EXPECT_EQ(Value("request_prompt_tokens_sum"), 8 + 20 + 40);
  EXPECT_EQ(NumBelow("request_prompt_tokens", "5"), 0);
  EXPECT_EQ(NumBelow("request_prompt_tokens", "10"), 1);
  EXPECT_EQ(NumBelow("request_prompt_tokens", "20"), 2);
  EXPECT_EQ(NumBelow("request_prompt_tokens", "50"), 3);
  EXPECT_EQ(Value("request_generation_tokens_count"), 3);
  EXPECT_EQ(Value("request_generation_tokens_sum"), 2 * 5 + 24 + 24);
  EXPECT_EQ(Value("request_generation_tokens_sum"), Value("generation_tokens_total"));
  EXPECT_EQ(Value("request_max_num_generation_tokens_count"), 3);
  EXPECT_EQ(Value("request_max_num_generation_tokens_sum"), 5 + 24 + 24);
  EXPECT_EQ(Value("request_params_n_count"), 3);
  EXPECT_EQ(Value("request_params_n_sum"), 2 + 1 + 1);
  EXPECT_EQ(NumBelow("request_params_n", "1"), 2);
  EXPECT_EQ(Value("request_params_max_tokens_count"), 3);
  EXPECT_EQ(Value("request_params_max_tokens_sum"), 5 + 24 + (kContext - 40))
      << "without max_tokens, the limit is the rest of the context";
  EXPECT_EQ(Value("request_success_total", "finished_reason=\"length\","), 3);
}

TEST_F(VllmMetricsTest, TimesCountForEachTokenAndForEachRequest) {
  for (const char* const name : {"inter_token_latency_seconds", "time_per_output_token_seconds"}) {
    EXPECT_EQ(Value(std::string(name) + "_count"), 2 * 4 + 23 + 23) << name;
    EXPECT_EQ(Value(std::string(name) + "_sum"),
              server_.Metric("incipit_inter_token_latency_seconds_sum"));
  }
  for (const char* const name :
       {"request_time_per_output_token", "request_inference_time", "request_prefill_time",
        "request_decode_time", "request_queue_time", "e2e_request_latency",
        "time_to_first_token"}) {
    EXPECT_EQ(Value(std::string(name) + "_seconds_count"), 3) << name;
  }
  EXPECT_GT(Value("request_time_per_output_token_seconds_sum"), 0);
  EXPECT_NEAR(Value("request_inference_time_seconds_sum"),
              Value("request_prefill_time_seconds_sum") + Value("request_decode_time_seconds_sum"),
              1e-9);
  EXPECT_LE(Value("request_inference_time_seconds_sum"), Value("e2e_request_latency_seconds_sum"));
}

TEST_F(VllmMetricsTest, StepsAndTheCacheHaveTheValuesOfIncipit) {
  EXPECT_EQ(Value("iteration_tokens_total_sum"),
            server_.Metric("incipit_step_tokens_total{kind=\"prefill\"}") +
                server_.Metric("incipit_step_tokens_total{kind=\"decode\"}"));
  EXPECT_EQ(Value("iteration_tokens_total_count"),
            server_.Metric("incipit_step_duration_seconds_count"));
  const double queries = server_.Metric("incipit_prefix_cache_queried_tokens_total");
  EXPECT_EQ(queries, 8 + 20 + 40);
  EXPECT_EQ(Value("prefix_cache_queries_total"), queries);
  EXPECT_EQ(Value("gpu_prefix_cache_queries_total"), queries);
  EXPECT_TRUE(Ask(server_.inference(), Greedy(PromptOf(40, 100), 1)).status.ok());
  const double hits = server_.Metric("incipit_prefix_cache_hit_tokens_total");
  EXPECT_GT(hits, 0);
  EXPECT_EQ(Value("prefix_cache_hits_total"), hits);
  EXPECT_EQ(Value("gpu_prefix_cache_hits_total"), hits);
  EXPECT_NEAR(Value("gpu_prefix_cache_hit_rate"), hits / (queries + 40), 1e-9);
  server_.AwaitLoad([](const auto& load) { return load.used_blocks() == 0; });
  EXPECT_EQ(Value("kv_cache_usage_perc"), 0);
  EXPECT_EQ(Value("gpu_cache_usage_perc"), 0);
  EXPECT_EQ(Value("cache_config_info", "block_size=\"16\",num_gpu_blocks=\"256\","), 1);
  EXPECT_EQ(server_.Metric("incipit_kv_capacity_blocks"), 256);
}

TEST_F(VllmMetricsTest, ARequestThatIsCancelledInTheQueueHasNoOutput) {
  server_.gate().Close();
  grpc::ClientContext context;
  const auto reader = server_.inference().Generate(&context, Greedy(PromptOf(30, 60), 5));
  server_.gate().AwaitWaiting();
  context.TryCancel();
  EXPECT_FALSE(Collect(*reader).status.ok());
  while (Value("request_success_total", "finished_reason=\"abort\",") == 0) {
    server_.gate().Allow(1);
  }
  EXPECT_EQ(Value("request_prompt_tokens_sum"), 8 + 20 + 40 + 30);
  EXPECT_EQ(Value("request_generation_tokens_count"), 4);
}

TEST_F(VllmMetricsTest, EachFamilyHasAHelpTextATypeAndTheLabels) {
  std::map<std::string, std::string> types;
  std::set<std::string> helps;
  size_t num_samples = 0;
  std::istringstream text(server_.Scrape());
  for (std::string line; std::getline(text, line);) {
    std::istringstream words(line);
    std::string hash, keyword, name, type;
    if (line.starts_with("# HELP vllm:")) {
      words >> hash >> keyword >> name;
      helps.insert(name);
    } else if (line.starts_with("# TYPE vllm:")) {
      words >> hash >> keyword >> name >> type;
      types[name] = type;
    } else if (line.starts_with("vllm:")) {
      EXPECT_THAT(line, HasSubstr(kLabels));
      ++num_samples;
    }
  }
  EXPECT_EQ(types.size(), 30u);
  EXPECT_EQ(helps.size(), types.size());
  EXPECT_GT(num_samples, types.size());
  for (const auto& [name, type] : types) EXPECT_TRUE(helps.contains(name)) << name;
  for (const char* const name :
       {"num_requests_running", "num_requests_waiting", "kv_cache_usage_perc", "lora_requests_info",
        "cache_config_info", "gpu_cache_usage_perc", "gpu_prefix_cache_hit_rate"}) {
    EXPECT_EQ(types[std::string("vllm:") + name], "gauge") << name;
  }
  for (const char* const name : {"gpu_prefix_cache_hits_total", "gpu_prefix_cache_queries_total",
                                 "request_success_total", "prompt_tokens_total"}) {
    EXPECT_EQ(types[std::string("vllm:") + name], "counter") << name;
  }
  for (const char* const name :
       {"request_prompt_tokens", "request_generation_tokens", "request_max_num_generation_tokens",
        "iteration_tokens_total", "request_params_n", "request_params_max_tokens",
        "request_time_per_output_token_seconds", "time_per_output_token_seconds",
        "request_inference_time_seconds"}) {
    EXPECT_EQ(types[std::string("vllm:") + name], "histogram") << name;
  }
}

TEST(MetricsCompatTest, NoneTurnsTheNamesOfVllmOff) {
  TestServerConfig config;
  config.options.metrics_compat = MetricsCompat::kNone;
  const TestServer server(std::move(config));
  EXPECT_THAT(server.Scrape(), Not(HasSubstr("vllm:")));
}

}  // namespace
}  // namespace incipit
