// Simulates seeded traffic on an engine with the CUDA backend on the emulated device. The cache has
// few blocks, so requests hit the cache, copy blocks, wait, are preempted and lose cached blocks.
// Some requests are cancelled or miss their deadline. Each output must have the same bits as the
// output of the request alone.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "kernels/cuda/cuda_options.h"
#include "kernels/emulator/runtime/graph_counts.h"
#include "tests/exactness/disk_tiers.h"
#include "tests/exactness/model_engine.h"
#include "tests/exactness/overlap_outputs.h"
#include "tests/kernels/cuda/random_checkpoint.h"

namespace incipit {
namespace {

constexpr int32_t kRequests = 12, kBlocks = 13, kBlockSize = 16;

std::unique_ptr<Backend> Emulated(int32_t) {
  auto backend = CreateCudaBackend({});
  INCIPIT_CHECK(backend.ok());
  return *std::move(backend);
}

struct Choice {
  std::vector<TokenId> tokens;
  std::vector<float> logprobs;  // for each token: its own, then those of the likeliest tokens
  std::optional<FinishReason> finish;
};

struct Outcome {
  std::vector<Choice> choices;
  std::map<int32_t, std::vector<float>> prompt_logprobs;  // by position
  int32_t num_ended = 0;
};

void AppendRow(const Logprobs& logprobs, int32_t row, std::vector<float>& to) {
  const auto at = static_cast<size_t>(row);
  to.push_back(logprobs.chosen[at].logprob);
  for (int32_t i = logprobs.top_begin[at]; i < logprobs.top_begin[at + 1]; ++i) {
    to.push_back(logprobs.top[static_cast<size_t>(i)].logprob);
  }
}

// Stores the outputs that each request receives. Thread-safe.
class Recorder : public EngineListener {
 public:
  void Expect(const Request& request) {
    MutexLock lock(mutex_);
    outcomes_[request.id].choices.resize(static_cast<size_t>(request.num_choices));
  }
  void OnStep(const StepEvents& events) override {
    {
      MutexLock lock(mutex_);
      for (const PromptLogprobsEvent& event : events.prompt_logprobs_events) {
        for (int32_t i = 0; i < event.num_rows; ++i) {
          AppendRow(events.prompt_logprobs, event.first_row + i,
                    outcomes_[event.request].prompt_logprobs[event.position + i]);
        }
      }
      for (const TokenEvent& event : events.tokens) Note(event, events.logprobs);
    }
    AfterStep(events.stats);
    changed_.notify_all();
  }
  void OnFatal(const absl::Status& status) override { ADD_FAILURE() << status; }

  Outcome WaitFor(RequestId id) {
    MutexLock lock(mutex_);
    while (!HasEnded(id)) changed_.wait(mutex_);
    return outcomes_[id];
  }
  bool IsOver(RequestId id) {
    MutexLock lock(mutex_);
    return HasEnded(id);
  }

 private:
  // Called on the engine thread after each step. Calls to the engine from here happen at the same
  // step in every run.
  virtual void AfterStep(const StepStats&) {}

  bool HasEnded(RequestId id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const Outcome& outcome = outcomes_[id];
    return !outcome.choices.empty() && outcome.num_ended == std::ssize(outcome.choices);
  }
  void Note(const TokenEvent& event, const Logprobs& logprobs)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    Outcome& outcome = outcomes_[event.request];
    Choice& choice = outcome.choices[static_cast<size_t>(event.choice)];
    if (event.token >= 0) {
      choice.tokens.push_back(event.token);
      if (event.logprobs_row >= 0) AppendRow(logprobs, event.logprobs_row, choice.logprobs);
    }
    if (!event.finish.has_value()) return;
    choice.finish = event.finish;
    ++outcome.num_ended;
  }

  Mutex mutex_;
  std::condition_variable_any changed_;
  std::map<RequestId, Outcome> outcomes_ ABSL_GUARDED_BY(mutex_);
};

struct SimulationTotals {
  int64_t steps = 0, preemptions = 0, hit_tokens = 0, copied_tokens = 0, evictions = 0;
  int64_t cancelled = 0, expired = 0, further_choices = 0;
};

// Submits requests between steps, cancels some requests, and advances the clock.
class Traffic final : public Recorder {
 public:
  Traffic(std::vector<Request> requests, uint64_t seed, SimulationTotals& totals)
      : requests_(std::move(requests)), numbers_(seed), totals_(totals) {}

  void Run(ModelEngine& engine) {
    engine_ = &engine;
    Submit();
    for (const Request& request : requests_) WaitFor(request.id);
  }

 private:
  void AfterStep(const StepStats& stats) override {
    ++totals_.steps;
    totals_.preemptions += stats.scheduler.num_preemptions();
    totals_.hit_tokens += stats.cache.hit_tokens;
    totals_.copied_tokens += stats.cache.copied_tokens;
    totals_.evictions += stats.cache.evictions.total();
    engine_->clock().Advance(std::chrono::milliseconds(numbers_.Below(3)));
    if (next_ > 0 && numbers_.Below(12) == 0) {
      const Request& request = requests_[static_cast<size_t>(numbers_.Below(next_))];
      if (request.num_choices > 1 && numbers_.Below(2) == 0) {
        engine_->engine().CancelChoice(request.id, numbers_.Below(request.num_choices));
      } else {
        engine_->engine().Cancel(request.id);
      }
    }
    // If the engine is idle, only a new request continues the simulation.
    while (next_ < std::ssize(requests_) && (IsIdle() || numbers_.Below(3) == 0)) Submit();
  }
  bool IsIdle() {
    for (int32_t i = 0; i < next_; ++i) {
      if (!IsOver(requests_[static_cast<size_t>(i)].id)) return false;
    }
    return true;
  }
  void Submit() {
    Request request = requests_[static_cast<size_t>(next_++)];
    request.arrival = engine_->clock().Now();
    if (request.deadline != kNoDeadline) {
      request.deadline = request.arrival + std::chrono::milliseconds(10 + numbers_.Below(25));
    }
    Expect(request);
    const absl::Status submitted =
        engine_->engine().Submit(std::make_shared<const Request>(std::move(request)));
    EXPECT_TRUE(submitted.ok()) << submitted;
  }

  const std::vector<Request> requests_;
  RandomNumbers numbers_;
  SimulationTotals& totals_;
  ModelEngine* engine_ = nullptr;
  int32_t next_ = 0;
};

// Returns random requests. Many prompts share prefixes of whole blocks and of parts of blocks.
std::vector<Request> RandomRequests(uint64_t seed) {
  RandomNumbers numbers(seed);
  std::vector<Request> requests;
  for (int32_t i = 0; i < kRequests; ++i) {
    Request request;
    request.id = RequestId{static_cast<uint64_t>(i) + 1};
    if (i % 5 != 0) {
      const auto& from = requests[static_cast<size_t>(numbers.Below(i))].prompt;
      const auto kept = static_cast<int32_t>(from.size()) - numbers.Below(8);
      request.prompt.assign(from.begin(), from.begin() + std::max(kept, 1));
    }
    const int32_t length = std::min<int32_t>(
        std::max(static_cast<int32_t>(request.prompt.size()), 20) + numbers.Below(25), 80);
    while (std::ssize(request.prompt) < length) {
      request.prompt.push_back(3 + numbers.Below(kRandomVocab - 3));
    }
    request.output_tokens_max = 2 + numbers.Below(8);
    request.num_choices = numbers.Below(3) == 0 ? 2 + numbers.Below(2) : 1;
    if (numbers.Below(2) == 0) request.stop_tokens = {numbers.Below(kRandomVocab)};
    request.priority = numbers.Below(3);
    request.sampling.temperature = numbers.Below(2) == 0 ? 0.0F : 0.8F;
    request.sampling.top_p = numbers.Below(2) == 0 ? 1.0F : 0.9F;
    request.sampling.repetition_penalty = numbers.Below(3) == 0 ? 1.3F : 1.0F;
    request.sampling.seed = static_cast<uint64_t>(i);
    request.sampling.num_logprobs = numbers.Below(4);
    if (numbers.Below(4) == 0) request.prompt_logprobs = 1;
    if (numbers.Below(3) == 0) request.deadline = Time{};  // any deadline; Traffic replaces it
    requests.push_back(std::move(request));
  }
  return requests;
}

// Returns the output of each request if it runs alone and finds nothing in the cache.
std::vector<Outcome> OutputsAlone(const std::string& checkpoint,
                                  const std::vector<Request>& requests) {
  Recorder recorder;
  ModelEngine engine(checkpoint, Emulated,
                     {.block_size = kBlockSize,
                      .num_blocks = 2 * kBlocks,
                      .step_tokens_max = 256,
                      .running_max = 1},
                     &recorder);
  std::vector<Outcome> alone;
  for (Request request : requests) {
    request.deadline = kNoDeadline;
    recorder.Expect(request);
    const RequestId id = request.id;
    EXPECT_TRUE(engine.engine().Submit(std::make_shared<const Request>(std::move(request))).ok());
    alone.push_back(recorder.WaitFor(id));
  }
  return alone;
}

template <class T>
bool IsBeginning(const std::vector<T>& part, const std::vector<T>& whole) {
  return part.size() <= whole.size() && std::equal(part.begin(), part.end(), whole.begin());
}

void Compare(const Request& request, const Outcome& outcome, const Outcome& alone,
             SimulationTotals& totals) {
  for (size_t i = 0; i < outcome.choices.size(); ++i) {
    const Choice &choice = outcome.choices[i], &expected = alone.choices[i];
    const std::string label =
        fmt::format("choice {} of request {}", i, static_cast<uint64_t>(request.id));
    ASSERT_TRUE(choice.finish.has_value()) << label;
    EXPECT_TRUE(IsBeginning(choice.tokens, expected.tokens)) << label;
    EXPECT_TRUE(IsBeginning(choice.logprobs, expected.logprobs)) << label;
    if (*choice.finish == FinishReason::kCancelled) {
      ++totals.cancelled;
    } else if (*choice.finish == FinishReason::kDeadline) {
      EXPECT_NE(request.deadline, kNoDeadline) << label;
      ++totals.expired;
    } else if (*choice.finish == FinishReason::kTooLate) {
      EXPECT_NE(request.deadline, kNoDeadline) << label;
      EXPECT_TRUE(choice.tokens.empty()) << label;
    } else {
      EXPECT_EQ(choice.finish, expected.finish) << label;
      EXPECT_EQ(choice.tokens.size(), expected.tokens.size()) << label;
      EXPECT_EQ(choice.logprobs.size(), expected.logprobs.size()) << label;
      if (i > 0) ++totals.further_choices;
    }
  }
  for (const auto& [position, row] : outcome.prompt_logprobs) {
    EXPECT_EQ(row, alone.prompt_logprobs.at(position)) << position;
  }
}

// Returns the value of INCIPIT_SIM_SEED. Returns 0 if the variable is not set.
uint64_t FirstSeed() {
  const char* text = std::getenv("INCIPIT_SIM_SEED");
  return text == nullptr ? 0 : std::strtoull(text, nullptr, 0);
}

SimulationTotals Simulate(const RandomCheckpoint& checkpoint, uint64_t num_seeds) {
  SimulationTotals totals;
  for (uint64_t seed = FirstSeed() + 1; seed <= FirstSeed() + num_seeds; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomNumbers numbers(seed + 100);
    const std::vector<Request> requests = RandomRequests(seed);
    const std::vector<Outcome> alone = OutputsAlone(checkpoint.path(), requests);
    Traffic traffic(requests, seed + 200, totals);
    ModelEngine engine(checkpoint.path(), Emulated,
                       {.block_size = kBlockSize,
                        .num_blocks = kBlocks,
                        .step_tokens_max = 12 + numbers.Below(40),
                        .running_max = 3 + numbers.Below(6),
                        .prefix_cache = true,
                        .steps_in_flight_max = 1 + static_cast<int32_t>(seed % 2)},
                       &traffic);
    traffic.Run(engine);
    for (size_t i = 0; i < requests.size(); ++i) {
      Compare(requests[i], traffic.WaitFor(requests[i].id), alone[i], totals);
    }
  }
  fmt::print(
      "{} steps, {} preemptions, {} hit tokens, {} of them in copied blocks, {} evicted blocks, {} "
      "cancelled choices, {} choices past their deadline, {} completed choices other than the "
      "first\n",
      totals.steps, totals.preemptions, totals.hit_tokens, totals.copied_tokens, totals.evictions,
      totals.cancelled, totals.expired, totals.further_choices);
  return totals;
}

TEST(EngineSimulationTest, EveryOutputIsAsAloneUnderAnyTraffic) {
  const SimulationTotals totals = Simulate(RandomCheckpoint(), 2);
  if (FirstSeed() != 0) return;  // only the default seeds are known to cause all these events
  EXPECT_GT(totals.preemptions, 0);
  EXPECT_GT(totals.hit_tokens, 0);
  EXPECT_GT(totals.copied_tokens, 0);
  EXPECT_GT(totals.evictions, 0);
  EXPECT_GT(totals.cancelled, 0);
  EXPECT_GT(totals.expired, 0);
  EXPECT_GT(totals.further_choices, 0);
}

TEST(EngineOverlapTest, PenaltiesHaveTheSameEffectWithTwoStepsInFlight) {
  ExpectSameOutputsWithOverlap(RandomCheckpoint().path(), Emulated, 9, 10);
}

TEST(EngineOverlapTest, LoadedPrefixesHaveNoEffectOnOutputs) {
  DiskTiers tiers(TestTier::kSmallStaging);
  ExpectSameOutputsWithOverlap(RandomCheckpoint().path(), Emulated, 9, 10, tiers.opener());
}

// Heads have 128 dimensions, as in large models. There are two KV heads.
TEST(EngineSimulationTest, EveryOutputIsAsAloneWithHeadsOf128Dimensions) {
  const SimulationTotals totals = Simulate(RandomCheckpoint(128, 2), 1);
  EXPECT_GT(emulator::LaunchesOf("AttentionShape<128"), 0);
  if (FirstSeed() != 0) return;
  EXPECT_GT(totals.preemptions, 0);
  EXPECT_GT(totals.hit_tokens, 0);
  EXPECT_GT(totals.copied_tokens, 0);
}

}  // namespace
}  // namespace incipit
