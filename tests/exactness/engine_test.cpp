// The same, end to end: an engine under pressure, whose requests hit, copy, wait and are preempted,
// answers each of them with the tokens and log probabilities that it gets alone.
#include "engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "engine/model/model.h"
#include "engine/transformer_runner.h"
#include "tests/conformance/support.h"
#include "tests/support/manual_clock.h"

namespace incipit {
namespace {

constexpr int32_t kTop = 10;

struct Answer {
  std::vector<TokenId> tokens;
  std::vector<float> logprobs;  // of each token: its own, then those of the likeliest
  bool ended = false;
};

// What the whole run did, to know that there was pressure.
struct Totals {
  int64_t preemptions = 0, hit_tokens = 0, copied_tokens = 0, found_again_tokens = 0;
};

// Thread-safe.
class AnswerListener final : public EngineListener {
 public:
  void OnStep(const StepEvents& events) override {
    MutexLock lock(mutex_);
    totals_.preemptions += events.stats.num_preemptions;
    totals_.hit_tokens += events.stats.cache.hit_tokens;
    totals_.copied_tokens += events.stats.cache.copied_tokens;
    totals_.found_again_tokens += events.stats.cache.self_hit_tokens;
    for (const TokenEvent& event : events.tokens) {
      Answer& answer = answers_[event.request];
      if (event.token >= 0) {
        const auto row = static_cast<size_t>(event.logprobs_row);
        answer.tokens.push_back(event.token);
        answer.logprobs.push_back(events.logprobs.chosen[row].logprob);
        for (int32_t i = events.logprobs.top_begin[row]; i < events.logprobs.top_begin[row + 1];
             ++i) {
          answer.logprobs.push_back(events.logprobs.top[static_cast<size_t>(i)].logprob);
        }
      }
      answer.ended = event.finish.has_value();
    }
    changed_.notify_all();
  }
  void OnFatal(const absl::Status& status) override { ADD_FAILURE() << status; }

  Answer WaitForAnswer(uint64_t id) {
    MutexLock lock(mutex_);
    while (!answers_[RequestId{id}].ended) changed_.wait(mutex_);
    return answers_[RequestId{id}];
  }
  Totals totals() {
    MutexLock lock(mutex_);
    return totals_;
  }

 private:
  Mutex mutex_;
  std::condition_variable_any changed_;
  std::map<RequestId, Answer> answers_ ABSL_GUARDED_BY(mutex_);
  Totals totals_ ABSL_GUARDED_BY(mutex_);
};

struct EngineSize {
  int32_t num_threads = 1, num_blocks = 0, step_tokens_max = 0, running_max = 0;
  bool prefix_cache = false;
};

// A backend, a model and an engine on it.
class ModelEngine {
 public:
  ModelEngine(const std::string& checkpoint, const EngineSize& size) {
    auto backend = CreateCpuBackend({.num_threads = size.num_threads});
    INCIPIT_CHECK(backend.ok());
    backend_ = *std::move(backend);
    const auto folder = std::filesystem::path(INCIPIT_SOURCE_DIR) / "tests/golden/hf" / checkpoint;
    auto model = LoadModel(folder, *backend_);
    INCIPIT_CHECK(model.ok());
    model_.emplace(*std::move(model));
    constexpr int32_t kBlockSize = 8;
    TransformerRunnerOptions runner_options;
    runner_options.num_blocks = size.num_blocks;
    runner_options.block_size = kBlockSize;
    runner_options.step_tokens_max = size.step_tokens_max;
    auto runner = TransformerRunner::Create(*backend_, *model_, runner_options);
    INCIPIT_CHECK(runner.ok());
    EngineOptions options;
    options.scheduler = {.step_tokens_max = size.step_tokens_max, .running_max = size.running_max};
    options.cache.num_blocks = size.num_blocks;
    options.cache.block_size = kBlockSize;
    options.cache.prefix_cache = options.cache.copy_on_write = size.prefix_cache;
    engine_ = std::make_unique<Engine>(options, *std::move(runner), listener_, clock_);
  }

  void Submit(uint64_t id, const std::vector<TokenId>& prompt, int32_t answer_tokens) {
    Request request;
    request.id = RequestId{id};
    request.prompt = prompt;
    request.answer_tokens_max = answer_tokens;
    request.sampling.temperature = 0;
    request.sampling.num_logprobs = kTop;
    const absl::Status submitted = engine_->Submit(std::move(request));
    EXPECT_TRUE(submitted.ok()) << submitted;
  }
  AnswerListener& listener() { return listener_; }

 private:
  ManualClock clock_;
  AnswerListener listener_;
  std::unique_ptr<Backend> backend_;
  std::optional<Model> model_;
  std::unique_ptr<Engine> engine_;  // last: its thread uses the others
};

class EngineExactnessTest : public testing::TestWithParam<std::string> {};

TEST_P(EngineExactnessTest, UnderPressureEveryRequestGetsWhatItGetsAlone) {
  constexpr int32_t kRequests = 24, kAnswer = 30;
  constexpr uint64_t kRounds = 2;
  // Prompts that begin alike as far as blocks and parts of blocks go, of all lengths.
  RandomNumbers numbers(21);
  std::vector<std::vector<TokenId>> prompts;
  for (int32_t i = 0; i < kRequests; ++i) {
    std::vector<TokenId> prompt;
    if (i % 6 != 0) {
      const std::vector<TokenId>& from = prompts[static_cast<size_t>(numbers.Below(i))];
      prompt.assign(from.begin(), from.begin() + numbers.Below(std::ssize(from)) + 1);
    }
    const int32_t length = 20 + numbers.Below(70);
    while (std::ssize(prompt) < length) prompt.push_back(3 + numbers.Below(90));
    prompts.push_back(std::move(prompt));
  }

  std::vector<Answer> alone;
  ModelEngine calm(GetParam(), {.num_threads = 1,
                                .num_blocks = 64,
                                .step_tokens_max = 512,
                                .running_max = 1,
                                .prefix_cache = false});
  for (int32_t i = 0; i < kRequests; ++i) {
    calm.Submit(i, prompts[static_cast<size_t>(i)], kAnswer);
    alone.push_back(calm.listener().WaitForAnswer(i));
    ASSERT_EQ(std::ssize(alone.back().tokens), kAnswer);
  }

  ModelEngine busy(GetParam(), {.num_threads = 2,
                                .num_blocks = 40,
                                .step_tokens_max = 19,
                                .running_max = 8,
                                .prefix_cache = true});
  for (uint64_t round = 0; round < kRounds; ++round) {
    for (int32_t i = 0; i < kRequests; ++i) {
      busy.Submit(round * 100 + i, prompts[static_cast<size_t>(i)], kAnswer);
    }
    for (int32_t i = 0; i < kRequests; ++i) {
      const Answer answer = busy.listener().WaitForAnswer(round * 100 + i);
      const Answer& expected = alone[static_cast<size_t>(i)];
      EXPECT_EQ(answer.tokens, expected.tokens) << "request " << i << " of round " << round;
      EXPECT_EQ(answer.logprobs, expected.logprobs) << "request " << i << " of round " << round;
    }
  }
  const Totals totals = busy.listener().totals();
  EXPECT_GT(totals.preemptions, 0);
  EXPECT_GT(totals.hit_tokens, 0);
  EXPECT_GT(totals.copied_tokens, 0);
  EXPECT_GT(totals.found_again_tokens, 0);
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, EngineExactnessTest,
                         testing::Values("llama-bf16", "llama-llama3", "mistral-window",
                                         "qwen2-tied-bf16", "qwen3-plain"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace incipit
