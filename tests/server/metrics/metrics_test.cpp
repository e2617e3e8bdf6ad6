#include "server/metrics/metrics.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <list>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <thread>

#include "base/status.h"
#include "server/metrics/metrics_histogram.h"

namespace incipit {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// The value of one sample, named with its labels as it is served.
double ValueOf(const std::string& text, const std::string& sample) {
  for (const std::string& line : LinesOf(text)) {
    if (line.starts_with(sample + " ")) return std::stod(line.substr(sample.size()));
  }
  ADD_FAILURE() << sample << " is not served";
  return -1;
}

ModelMetrics TinyModel() {
  return {.name = "tiny \"model\"",
          .architecture = "LlamaForCausalLM",
          .dtype = "bf16",
          .kv_dtype = "bf16",
          .backend = "cpu",
          .max_model_len = 2048,
          .block_size = 16,
          .num_blocks = 100};
}

// What one step tells, with the memory that the views point to.
struct StepOfThreeTokens {
  std::vector<AdmissionEvent> admissions = {
      {.request = RequestId{1},
       .num_prompt_tokens = 100,
       .num_cached_tokens = 64,
       .queue_time = std::chrono::milliseconds(4)},
      {.request = RequestId{2}, .num_prompt_tokens = 50, .queue_time = std::chrono::seconds(2)},
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
    stats.num_tokens = 87;
    stats.num_prefill_tokens = 86;
    stats.num_decode_tokens = 1;
    stats.num_preemptions = 2;
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

EngineLoad SomeLoad() {
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
  return load;
}

std::unique_ptr<Metrics> FilledMetrics(bool vllm_names) {
  auto metrics = std::make_unique<Metrics>(MetricsOptions{.vllm_names = vllm_names});
  metrics->SetModelInfo(TinyModel());
  metrics->SetLoadSource(SomeLoad);
  metrics->OnStep(StepOfThreeTokens().events());
  metrics->OnGeneratedTokens(3);
  metrics->OnFirstToken(0.25);
  metrics->OnInterTokenLatency(0.004, 3);
  metrics->OnRequestFinished({FinishReason::kStop, 1.5, 0.2, 1.25});
  metrics->OnRequestFinished({FinishReason::kCancelled, 0.5, std::nullopt, std::nullopt});
  metrics->OnRequestRejected(Reason::kQueueFull);
  return metrics;
}

TEST(MetricsHistogramTest, ABoundBelongsToItsBucketAndCountsAreCumulative) {
  constexpr std::array kBounds = {1.0, 2.0, 5.0};
  MetricsHistogram histogram(kBounds);
  for (const double value : {0.5, 1.0, 1.5, 5.0, 6.0}) histogram.Observe(value);
  histogram.Observe(2.0, 10);
  const auto snapshot = histogram.Read();
  EXPECT_THAT(snapshot.cumulative, ::testing::ElementsAre(2, 13, 14, 15));
  EXPECT_DOUBLE_EQ(snapshot.sum, 34);
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
  EXPECT_EQ(ValueOf(text, "incipit_preemptions_total"), 2);
  EXPECT_EQ(ValueOf(text, "incipit_step_tokens_total{kind=\"prefill\"}"), 86);
  EXPECT_EQ(ValueOf(text, "incipit_step_tokens_total{kind=\"decode\"}"), 1);
  EXPECT_DOUBLE_EQ(ValueOf(text, "incipit_step_part_seconds_total{part=\"run\"}"), 0.003);
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

TEST(MetricsTest, AStepThatComputedNothingIsNotTimed) {
  Metrics metrics({});
  StepOfThreeTokens step;
  step.stats.num_tokens = 0;
  metrics.OnStep(step.events());
  EXPECT_EQ(ValueOf(metrics.Text(), "incipit_step_duration_seconds_count"), 0);
  EXPECT_EQ(ValueOf(metrics.Text(), "incipit_preemptions_total"), 2);
}

TEST(MetricsTest, RequestsCountByHowTheyEnded) {
  const std::string text = FilledMetrics(false)->Text();
  EXPECT_EQ(ValueOf(text, "incipit_requests_total{outcome=\"ok\",finish_reason=\"stop\"}"), 1);
  EXPECT_EQ(ValueOf(text, "incipit_requests_total{outcome=\"ok\",finish_reason=\"length\"}"), 0);
  EXPECT_EQ(ValueOf(text, "incipit_requests_total{outcome=\"cancelled\",finish_reason=\"none\"}"),
            1);
  EXPECT_EQ(ValueOf(text, "incipit_request_duration_seconds_count"), 2);
  EXPECT_EQ(ValueOf(text, "incipit_request_prefill_seconds_count"), 1) << "it never got that far";
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
  load.hit_ratios.decayed = false;
  EXPECT_EQ(ValueOf(metrics.Text(), ratio + "_alarm"), 0);
  load.num_running = 0;
  EXPECT_EQ(ValueOf(metrics.Text(), "incipit_requests_running"), 0);
  metrics.SetLoadSource(nullptr);
  load.num_running = 9;
  EXPECT_EQ(ValueOf(metrics.Text(), "incipit_requests_running"), 0) << "the last answer stays";
}

TEST(MetricsTest, EveryReasonHasALabelAndAddsNoSeries) {
  Metrics metrics({});
  const size_t num_lines = LinesOf(metrics.Text()).size();
  for (int i = 0; i <= static_cast<int>(Reason::kCannotResume); ++i) {
    metrics.OnRequestRejected(static_cast<Reason>(i));
  }
  const std::string text = metrics.Text();
  EXPECT_EQ(LinesOf(text).size(), num_lines);
  EXPECT_EQ(ValueOf(text, "incipit_requests_rejected_total{reason=\"queue_full\"}"), 3);
  EXPECT_EQ(ValueOf(text, "incipit_requests_rejected_total{reason=\"draining\"}"), 1);
}

TEST(MetricsTest, TheFieldsNamesAreServedOnRequestWithTheSameValues) {
  EXPECT_THAT(FilledMetrics(false)->Text(), Not(HasSubstr("vllm:")));
  const std::string text = FilledMetrics(true)->Text();
  const std::string model = "model_name=\"tiny \\\"model\\\"\"";
  const auto value = [&](const std::string& name) {
    return ValueOf(text, "vllm:" + name + "{" + model + "}");
  };
  EXPECT_EQ(value("num_requests_running"), 3);
  EXPECT_EQ(value("num_requests_waiting"), 2);
  EXPECT_EQ(value("kv_cache_usage_perc"), 0.25);
  EXPECT_EQ(value("prefix_cache_queries_total"), 150);
  EXPECT_EQ(value("prefix_cache_hits_total"), 64);
  EXPECT_EQ(value("num_preemptions_total"), 2);
  EXPECT_EQ(value("prompt_tokens_total"), 150);
  EXPECT_EQ(value("generation_tokens_total"), 3);
  EXPECT_EQ(value("time_to_first_token_seconds_count"), 1);
  EXPECT_EQ(value("inter_token_latency_seconds_count"), 3);
  EXPECT_EQ(value("e2e_request_latency_seconds_sum"), 2);
  EXPECT_EQ(value("request_queue_time_seconds_count"), 2);
  EXPECT_EQ(value("request_prefill_time_seconds_count"), 1);
  EXPECT_EQ(value("request_decode_time_seconds_count"), 1);
  EXPECT_EQ(ValueOf(text, "vllm:request_success_total{finished_reason=\"abort\"," + model + "}"),
            1);
  EXPECT_EQ(ValueOf(text, "vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"100\"," +
                              model + "}"),
            1);
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

// name -> "type label label ..." with the labels sorted.
using Families = std::map<std::string, std::string>;

Families FamiliesServed(const std::string& text) {
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

Families FamiliesDocumented() {
  std::ifstream file(INCIPIT_SOURCE_DIR "/docs/operations.md");
  const std::regex row("\\| `([a-z0-9_:]+)` \\| ([a-z]+) \\|([^|]*)\\|.*");
  const std::regex label_pattern("`([a-z_]+)`");
  Families families;
  for (std::string line; std::getline(file, line);) {
    std::smatch match;
    if (!std::regex_match(line, match, row)) continue;
    std::string text = match[2];
    const std::string cell = match[3];
    std::set<std::string> labels;
    for (std::sregex_iterator it(cell.begin(), cell.end(), label_pattern), end; it != end; ++it) {
      labels.insert((*it)[1]);
    }
    for (const std::string& label : labels) text += " " + label;
    families[match[1]] = text;
  }
  return families;
}

TEST(MetricsTest, TheOperationsGuideListsExactlyWhatIsServed) {
  EXPECT_EQ(FamiliesDocumented(), FamiliesServed(FilledMetrics(true)->Text()));
}

TEST(MetricsTest, TheOperationsGuideListsEveryReasonOfARejection) {
  std::ifstream file(INCIPIT_SOURCE_DIR "/docs/operations.md");
  const std::string guide((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  for (size_t i = 0; i < static_cast<size_t>(RejectionLabel::kOther); ++i) {
    const std::string label(NameOf(static_cast<RejectionLabel>(i)));
    EXPECT_THAT(guide, HasSubstr("\n| `" + label + "` |"));
  }
}

// The rules that are shipped, whole files.
std::string AlertRules() {
  std::ifstream file(INCIPIT_SOURCE_DIR "/deploy/prometheus/alerts.yaml");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

TEST(MetricsTest, EveryAlertIsAboutSomethingThatIsServed) {
  const std::string rules = AlertRules(), text = FilledMetrics(false)->Text();
  const std::regex name("incipit_[a-z0-9_]+");
  size_t num_names = 0;
  for (std::sregex_iterator it(rules.begin(), rules.end(), name), end; it != end; ++it) {
    EXPECT_THAT(text, HasSubstr("\n" + it->str())) << "no alert can fire";
    ++num_names;
  }
  EXPECT_GT(num_names, 4u);
}

TEST(MetricsTest, TheOperationsGuideShowsTheAlertOfTheHitRatioAsItIsShipped) {
  const std::string rules = AlertRules();
  const size_t begin = rules.find("      - alert: IncipitPrefixCacheDecayed");
  ASSERT_NE(begin, std::string::npos);
  const size_t end = rules.find("      - alert:", begin + 1);
  std::ifstream file(INCIPIT_SOURCE_DIR "/docs/operations.md");
  const std::string guide((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_THAT(guide, HasSubstr(rules.substr(begin, end - begin)));
}

bool HasPromtool() { return std::system("promtool --version >/dev/null 2>&1") == 0; }

TEST(MetricsTest, PromtoolTakesTheAlerts) {
  if (!HasPromtool()) {
    GTEST_SKIP() << "promtool (Debian package prometheus) is not installed";
  }
  const std::string command =
      "promtool check rules " INCIPIT_SOURCE_DIR "/deploy/prometheus/alerts.yaml >/dev/null";
  EXPECT_EQ(std::system(command.c_str()), 0);
}

TEST(MetricsTest, PromtoolFindsNothingToSay) {
  if (!HasPromtool()) {
    GTEST_SKIP() << "promtool (Debian package prometheus) is not installed";
  }
  const std::string output_path = ::testing::TempDir() + "promtool_output";
  FILE* const pipe = popen(("promtool check metrics >" + output_path + " 2>&1").c_str(), "w");
  ASSERT_NE(pipe, nullptr);
  const std::string text = FilledMetrics(false)->Text();
  fwrite(text.data(), 1, text.size(), pipe);
  const int exit_code = pclose(pipe);
  std::ifstream output(output_path);
  EXPECT_EQ(std::string((std::istreambuf_iterator<char>(output)), std::istreambuf_iterator<char>()),
            "");
  EXPECT_EQ(exit_code, 0);
}

// A connection to the endpoint, closed by the destructor.
class Connection {
 public:
  explicit Connection(int port) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    EXPECT_EQ(connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  ~Connection() { close(socket_); }

  std::string Reply(const std::string& request) {
    EXPECT_EQ(write(socket_, request.data(), request.size()), static_cast<ssize_t>(request.size()));
    std::string reply;
    char buffer[4096];
    for (ssize_t got = 0; (got = read(socket_, buffer, sizeof buffer)) > 0;) {
      reply.append(buffer, static_cast<size_t>(got));
    }
    return reply;
  }

 private:
  int socket_;
};

TEST(MetricsTest, ServesTheTextOverHttpOnAPortOfItsChoice) {
  const auto metrics = FilledMetrics(false);
  const auto port = metrics->Start({"127.0.0.1", 0});
  ASSERT_TRUE(port.ok()) << port.status();
  ASSERT_GT(*port, 0);
  const std::string reply = Connection(*port).Reply("GET /metrics HTTP/1.0\r\n\r\n");
  EXPECT_THAT(reply, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(reply, HasSubstr("Content-Type: text/plain; version=0.0.4"));
  EXPECT_EQ(FamiliesServed(reply.substr(reply.find("\r\n\r\n") + 4)),
            FamiliesServed(metrics->Text()));
  const std::string head =
      Connection(*port).Reply("HEAD /metrics?x=1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(head, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_TRUE(head.ends_with("\r\n\r\n"));
}

TEST(MetricsTest, WhatIsNoScrapeIsRefused) {
  const auto metrics = FilledMetrics(false);
  const auto port = metrics->Start({"127.0.0.1", 0});
  ASSERT_TRUE(port.ok()) << port.status();
  const auto reply = [&](const std::string& request) { return Connection(*port).Reply(request); };
  EXPECT_THAT(reply("GET / HTTP/1.0\r\n\r\n"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(reply("GET /metrics/../etc/passwd HTTP/1.0\r\n\r\n"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(reply("POST /metrics HTTP/1.1\r\nHost: a\r\n\r\n"), StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(reply("garbage\r\n\r\n"), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(reply(std::string("\0 \r\n\r\n", 6)), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(reply("GET /metrics HTTP/1.1\r\nX: " + std::string(8192, 'x')),
              StartsWith("HTTP/1.1 431"));
  EXPECT_THAT(reply("GET /metrics HTTP/1.0\r\n\r\n"), StartsWith("HTTP/1.1 200 OK\r\n"));
}

TEST(MetricsTest, ScrapersThatSayNothingLeaveRoomForOthers) {
  const auto metrics = FilledMetrics(false);
  const auto port = metrics->Start({"127.0.0.1", 0});
  ASSERT_TRUE(port.ok()) << port.status();
  std::list<Connection> silent;
  for (int i = 0; i < 32; ++i) silent.emplace_back(*port);
  EXPECT_THAT(Connection(*port).Reply("GET /metrics HTTP/1.0\r\n\r\n"), HasSubstr("200 OK"));
}

TEST(MetricsTest, ScrapersThatSayNothingMakeRoomWhenThereIsNone) {
  const auto metrics = FilledMetrics(false);
  const auto port = metrics->Start({"127.0.0.1", 0});
  ASSERT_TRUE(port.ok()) << port.status();
  std::list<Connection> silent;
  for (int i = 0; i < 64; ++i) silent.emplace_back(*port);
  EXPECT_THAT(Connection(*port).Reply("GET /metrics HTTP/1.0\r\n\r\n"), HasSubstr("200 OK"));
  // The one that has been silent for longest went, and only that one.
  EXPECT_EQ(silent.front().Reply(""), "");
  EXPECT_THAT(std::next(silent.begin())->Reply("GET /metrics HTTP/1.0\r\n\r\n"),
              HasSubstr("200 OK"));
  EXPECT_THAT(silent.back().Reply("GET /metrics HTTP/1.0\r\n\r\n"), HasSubstr("200 OK"));
}

TEST(MetricsTest, AnAddressThatCannotBeServedIsNamed) {
  Metrics metrics({});
  const auto port = metrics.Start({"127.0.0.1", 0});
  ASSERT_TRUE(port.ok()) << port.status();
  const HostPort taken{"127.0.0.1", static_cast<uint16_t>(*port)};
  const auto again = Metrics({}).Start(taken);
  EXPECT_EQ(again.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(MessageOf(again.status()), HasSubstr(ToString(taken)));
}

}  // namespace
}  // namespace incipit
