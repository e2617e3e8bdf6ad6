// An engine on a small model, for tests of exactness. A request that hits the cache, copies blocks,
// waits or is preempted must get the same tokens and log probabilities as without other requests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/mutex.h"
#include "engine/engine.h"
#include "engine/transformer_runner.h"
#include "kvcache/tiers/prefix_tier.h"
#include "tests/conformance/support.h"
#include "tests/support/manual_clock.h"
#include "tests/support/source_folder.h"
#include "tests/transformer/safetensors_builder.h"
#include "transformer/model.h"

namespace incipit {

inline constexpr int32_t kTop = 10;

struct Output {
  std::vector<TokenId> tokens;
  // For each token: the log probability of the token, followed by the log probabilities of the most
  // likely tokens.
  std::vector<float> logprobs;
  // The same for each prompt token, if the request has prompt_logprobs.
  std::vector<float> prompt_logprobs = {};
  bool ended = false;
  std::optional<FinishReason> finish = {};
};

// Event counts of the whole run, with which tests check that the run was under pressure.
struct Totals {
  int64_t preemptions = 0, hit_tokens = 0, copied_tokens = 0, found_again_tokens = 0;
  int64_t loaded_tokens = 0;  // prompt tokens that were loaded from a tier at the first admission
};

// Collects the outputs and the event counts. Thread-safe.
class OutputListener final : public EngineListener {
 public:
  void OnStep(const StepEvents& events) override {
    MutexLock lock(mutex_);
    while (holds_) {
      is_held_ = true;
      changed_.notify_all();
      changed_.wait(mutex_);
    }
    is_held_ = false;
    totals_.preemptions += events.stats.scheduler.num_preemptions();
    totals_.hit_tokens += events.stats.cache.hit_tokens;
    totals_.copied_tokens += events.stats.cache.copied_tokens;
    totals_.found_again_tokens += events.stats.cache.self_hit_tokens;
    for (const AdmissionEvent& event : events.admissions) {
      totals_.loaded_tokens += event.num_loaded_tokens;
    }
    for (const TokenEvent& event : events.tokens) {
      Output& output = outputs_[event.request];
      if (event.token >= 0) {
        const auto row = static_cast<size_t>(event.logprobs_row);
        output.tokens.push_back(event.token);
        output.logprobs.push_back(events.logprobs.chosen[row].logprob);
        for (int32_t i = events.logprobs.top_begin[row]; i < events.logprobs.top_begin[row + 1];
             ++i) {
          output.logprobs.push_back(events.logprobs.top[static_cast<size_t>(i)].logprob);
        }
      }
      output.ended = event.finish.has_value();
      output.finish = event.finish;
    }
    changed_.notify_all();
  }
  void OnFatal(const absl::Status& status) override { ADD_FAILURE() << status; }

  // Makes the engine thread wait at the end of its next step, until Release. So a test can submit
  // many requests that arrive between the same two steps in every run.
  void HoldNextStep() {
    MutexLock lock(mutex_);
    holds_ = true;
  }
  // Waits until the engine thread waits.
  void WaitUntilHeld() {
    MutexLock lock(mutex_);
    while (!is_held_) changed_.wait(mutex_);
  }
  void Release() {
    MutexLock lock(mutex_);
    holds_ = false;
    changed_.notify_all();
  }

  Output WaitForOutput(uint64_t id) {
    MutexLock lock(mutex_);
    while (!outputs_[RequestId{id}].ended) changed_.wait(mutex_);
    return outputs_[RequestId{id}];
  }
  Totals totals() {
    MutexLock lock(mutex_);
    return totals_;
  }

 private:
  Mutex mutex_;
  std::condition_variable_any changed_;
  std::map<RequestId, Output> outputs_ ABSL_GUARDED_BY(mutex_);
  Totals totals_ ABSL_GUARDED_BY(mutex_);
  bool holds_ ABSL_GUARDED_BY(mutex_) = false, is_held_ ABSL_GUARDED_BY(mutex_) = false;
};

using BackendMaker = std::function<std::unique_ptr<Backend>(int32_t num_threads)>;

// Opens a tier for chunks of the given shape. The chunks of earlier calls are still in the tier.
// The result is valid until the next call. REQUIRES: the engine of the previous call has ended.
using TierOpener = std::function<PrefixTier*(const ChunkShape& shape)>;

inline constexpr int32_t kTestChunkTokens = 16;

struct EngineSize {
  int32_t num_threads = 1, block_size = 8, num_blocks = 0, step_tokens_max = 0, running_max = 0;
  bool prefix_cache = false;
  int32_t steps_in_flight_max = 1;
  TierOpener open_tier = {};  // empty: no tier
};

// A backend with a model and an engine. The engine sends its events to `listener`, or to its own
// OutputListener if `listener` is null.
class ModelEngine {
 public:
  ModelEngine(const std::string& checkpoint, const BackendMaker& make_backend,
              const EngineSize& size, EngineListener* listener = nullptr)
      : backend_(make_backend(size.num_threads)) {
    const auto folder = SourceFolder() / "tests/golden/hf" / checkpoint;
    auto model = LoadModel(folder, *backend_);
    INCIPIT_CHECK(model.ok());
    model_.emplace(*std::move(model));
    TransformerRunnerOptions runner_options;
    runner_options.num_blocks = size.num_blocks;
    runner_options.block_size = size.block_size;
    runner_options.step_tokens_max = size.step_tokens_max;
    auto runner = TransformerRunner::Create(*backend_, *model_, runner_options);
    INCIPIT_CHECK(runner.ok());
    EngineOptions options;
    options.scheduler = {.step_tokens_max = size.step_tokens_max,
                         .running_max = size.running_max,
                         .steps_in_flight_max = size.steps_in_flight_max};
    options.cache.num_blocks = size.num_blocks;
    options.cache.block_size = size.block_size;
    options.cache.prefix_cache = options.cache.copy_on_write = size.prefix_cache;
    PrefixTier* tier = nullptr;
    if (size.open_tier) {
      tier = size.open_tier({.block_size = size.block_size,
                             .blocks_per_chunk = std::max(1, kTestChunkTokens / size.block_size),
                             .block_bytes = (*runner)->block_bytes()});
    }
    engine_ = std::make_unique<Engine>(options, *std::move(runner),
                                       listener != nullptr ? *listener : listener_, clock_, tier);
  }

  void Submit(uint64_t id, const std::vector<TokenId>& prompt, int32_t output_tokens) {
    Request request;
    request.id = RequestId{id};
    request.prompt = prompt;
    request.output_tokens_max = output_tokens;
    request.sampling.temperature = 0;
    request.sampling.num_logprobs = kTop;
    const absl::Status submitted =
        engine_->Submit(std::make_shared<const Request>(std::move(request)));
    EXPECT_TRUE(submitted.ok()) << submitted;
  }
  OutputListener& listener() { return listener_; }
  Engine& engine() { return *engine_; }
  ManualClock& clock() { return clock_; }

 private:
  ManualClock clock_;
  OutputListener listener_;
  std::unique_ptr<Backend> backend_;
  std::optional<Model> model_;
  // Declared last: the engine thread uses the other members.
  std::unique_ptr<Engine> engine_;
};

// Returns a copy of a bf16 checkpoint in which the input embedding of `token` is NaN.
inline std::filesystem::path CheckpointWithNaN(const TemporaryFolder& folder,
                                               const std::string& checkpoint, TokenId token) {
  const auto from = SourceFolder() / "tests/golden/hf" / checkpoint;
  for (const auto& entry : std::filesystem::directory_iterator(from)) {
    std::filesystem::copy(entry.path(), folder.path() / entry.path().filename());
  }
  std::fstream file(folder.path() / "model.safetensors",
                    std::ios::in | std::ios::out | std::ios::binary);
  uint64_t header_bytes = 0;
  file.read(reinterpret_cast<char*>(&header_bytes), sizeof(header_bytes));
  std::string header(header_bytes, ' ');
  file.read(header.data(), static_cast<std::streamsize>(header_bytes));
  const auto tensor = nlohmann::json::parse(header)["model.embed_tokens.weight"];
  INCIPIT_CHECK(tensor["dtype"] == "BF16");
  const auto columns = tensor["shape"][1].get<size_t>();
  const auto begin = tensor["data_offsets"][0].get<size_t>();
  const std::vector<uint16_t> row(columns, 0x7FC0);
  file.seekp(static_cast<std::streamoff>(sizeof(header_bytes) + header_bytes + begin +
                                         static_cast<size_t>(token) * columns * 2));
  file.write(reinterpret_cast<const char*>(row.data()), static_cast<std::streamsize>(columns * 2));
  INCIPIT_CHECK(file.good());
  return folder.path();
}

// Checks that a request whose values become NaN ends with an error. Later requests reuse the blocks
// of the failed request. The outputs of later requests must have the same bits as without the
// failed request. With a tier, a second engine with an empty cache loads the prompts.
inline void ExpectNaNStaysWithItsRequest(const BackendMaker& make_backend, int32_t block_size,
                                         const TierOpener& open_tier = {}) {
  constexpr TokenId kBad = 50;
  constexpr int32_t kNeighbours = 3, kOutput = 8;
  const TemporaryFolder folder;
  const std::string checkpoint = CheckpointWithNaN(folder, "llama-bf16", kBad).string();
  std::vector<std::vector<TokenId>> prompts;
  for (int32_t i = 0; i < kNeighbours; ++i) {
    std::vector<TokenId> prompt;
    for (int32_t t = 0; t < 20 + 7 * i; ++t) prompt.push_back(3 + (13 * t + 5 * i) % 40);
    prompts.push_back(std::move(prompt));
  }
  EngineSize size = {.num_threads = 2,
                     .block_size = block_size,
                     .num_blocks = 160 / block_size,
                     .step_tokens_max = 32,
                     .running_max = 8,
                     .prefix_cache = true};
  std::vector<Output> alone;
  ModelEngine calm(checkpoint, make_backend, size);
  for (int32_t i = 0; i < kNeighbours; ++i) {
    calm.Submit(static_cast<uint64_t>(i), prompts[static_cast<size_t>(i)], kOutput);
    alone.push_back(calm.listener().WaitForOutput(static_cast<uint64_t>(i)));
  }

  size.open_tier = open_tier;
  constexpr uint64_t kRounds = 4;
  for (const bool is_second : {false, true}) {
    if (is_second && !open_tier) return;
    ModelEngine shared(checkpoint, make_backend, size);
    for (uint64_t round = 0; round < kRounds; ++round) {
      // The prompt with the NaN token starts like another prompt. The prompt is so long that every
      // other request reuses some of its blocks. A failed request removes the chunks of its prompt
      // from the tier. The last round has no such prompt, so that the other prompts are stored.
      const bool has_bad = round + 1 < kRounds;
      std::vector<TokenId> bad = prompts[round % kNeighbours];
      bad[bad.size() / 2] = kBad;
      bad.insert(bad.end(), 20, 7);
      if (has_bad) shared.Submit(100 * round + 50, bad, kOutput);
      for (int32_t i = 0; i < kNeighbours; ++i) {
        shared.Submit(100 * round + static_cast<uint64_t>(i), prompts[static_cast<size_t>(i)],
                      kOutput);
      }
      if (has_bad) {
        EXPECT_EQ(shared.listener().WaitForOutput(100 * round + 50).finish, FinishReason::kError);
      }
      for (int32_t i = 0; i < kNeighbours; ++i) {
        const Output output =
            shared.listener().WaitForOutput(100 * round + static_cast<uint64_t>(i));
        EXPECT_EQ(output.tokens, alone[static_cast<size_t>(i)].tokens) << i << ", round " << round;
        EXPECT_EQ(output.logprobs, alone[static_cast<size_t>(i)].logprobs);
      }
    }
    if (is_second) {
      EXPECT_GT(shared.listener().totals().loaded_tokens, 0);
    }
  }
}

struct Pressure {
  int32_t block_size = 8, num_blocks = 40, num_blocks_alone = 64;
  int32_t num_requests = 24, num_rounds = 2, output_tokens = 30;
  int32_t step_tokens_max_alone = 512;
};

// Returns prompts of different lengths that share prefixes of whole blocks and of parts of blocks.
inline std::vector<std::vector<TokenId>> PromptsWithSharedPrefixes(int32_t num_requests) {
  RandomNumbers numbers(21);
  std::vector<std::vector<TokenId>> prompts;
  for (int32_t i = 0; i < num_requests; ++i) {
    std::vector<TokenId> prompt;
    if (i % 6 != 0) {
      const std::vector<TokenId>& from = prompts[static_cast<size_t>(numbers.Below(i))];
      prompt.assign(from.begin(), from.begin() + numbers.Below(std::ssize(from)) + 1);
    }
    const int32_t length = 20 + numbers.Below(70);
    while (std::ssize(prompt) < length) prompt.push_back(3 + numbers.Below(90));
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

// Runs all prompts at the same time, `pressure.num_rounds` times, and compares the outputs with
// `alone`. Also checks that the requests were under pressure.
inline void ExpectOutputsUnderPressure(ModelEngine& busy, const Pressure& pressure,
                                       const std::vector<std::vector<TokenId>>& prompts,
                                       const std::vector<Output>& alone) {
  for (uint64_t round = 0; round < static_cast<uint64_t>(pressure.num_rounds); ++round) {
    // The first request runs alone for one step. All others arrive between this step and the next
    // one, so that every run without a tier computes the same steps.
    busy.listener().HoldNextStep();
    busy.Submit(round * 100, prompts[0], pressure.output_tokens);
    busy.listener().WaitUntilHeld();
    for (size_t i = 1; i < prompts.size(); ++i) {
      busy.Submit(round * 100 + i, prompts[i], pressure.output_tokens);
    }
    busy.listener().Release();
    for (size_t i = 0; i < prompts.size(); ++i) {
      const Output output = busy.listener().WaitForOutput(round * 100 + i);
      EXPECT_EQ(output.tokens, alone[i].tokens) << "request " << i << " of round " << round;
      EXPECT_EQ(output.logprobs, alone[i].logprobs) << "request " << i << " of round " << round;
    }
  }
  const Totals totals = busy.listener().totals();
  EXPECT_GT(totals.preemptions, 0);
  EXPECT_GT(totals.hit_tokens, 0);
  EXPECT_GT(totals.copied_tokens, 0);
  EXPECT_GT(totals.found_again_tokens, 0);
}

// Compares the outputs of requests that run at the same time with the outputs of the same requests
// alone. With a tier, an engine stores chunks, and a second engine with an empty cache loads them.
inline void ExpectOutputsAsAlone(const std::string& checkpoint, const BackendMaker& make_backend,
                                 const Pressure& pressure, const TierOpener& open_tier = {}) {
  const std::vector<std::vector<TokenId>> prompts =
      PromptsWithSharedPrefixes(pressure.num_requests);
  std::vector<Output> alone;
  ModelEngine calm(checkpoint, make_backend,
                   {.num_threads = 1,
                    .block_size = pressure.block_size,
                    .num_blocks = pressure.num_blocks_alone,
                    .step_tokens_max = pressure.step_tokens_max_alone,
                    .running_max = 1,
                    .prefix_cache = false});
  for (size_t i = 0; i < prompts.size(); ++i) {
    calm.Submit(i, prompts[i], pressure.output_tokens);
    alone.push_back(calm.listener().WaitForOutput(i));
    ASSERT_EQ(std::ssize(alone.back().tokens), pressure.output_tokens);
  }

  const EngineSize size = {.num_threads = 2,
                           .block_size = pressure.block_size,
                           .num_blocks = pressure.num_blocks,
                           .step_tokens_max = 19,
                           .running_max = 8,
                           .prefix_cache = true,
                           .open_tier = open_tier};
  {
    ModelEngine busy(checkpoint, make_backend, size);
    ExpectOutputsUnderPressure(busy, pressure, prompts, alone);
  }
  if (!open_tier) return;
  ModelEngine loading(checkpoint, make_backend, size);
  ExpectOutputsUnderPressure(loading, pressure, prompts, alone);
  EXPECT_GT(loading.listener().totals().loaded_tokens, 0);
}

}  // namespace incipit
