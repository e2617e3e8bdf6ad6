// Tests steps of unusual sizes and kinds through the runner of a model, on the emulated device.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include "base/hash/sha256.h"
#include "base/status.h"
#include "engine/transformer_runner.h"
#include "kernels/cuda/cuda_options.h"
#include "kernels/emulator/runtime/device_memory.h"
#include "kernels/emulator/runtime/graph_counts.h"
#include "kernels/numerics_version.h"
#include "tests/support/source_folder.h"
#include "tests/support/step_builder.h"
#include "transformer/model.h"

namespace incipit {
namespace {

constexpr int32_t kPageTokens = 16, kContext = 112;

// The sequences of a step. Each sequence has its own pages.
class Sequences {
 public:
  explicit Sequences(int32_t vocab_size) : vocab_size_(vocab_size) {}

  // Adds sequence `which` with `count` tokens from position 0, and `num_samples` samples after its
  // last token. Each sample has the penalty counts `counts`.
  void Add(int32_t which, int32_t count, const SamplingParams& params, int32_t num_samples,
           std::span<const TokenCount> counts = {}) {
    std::vector<TokenId> tokens;
    for (int32_t i = 0; i < count; ++i) tokens.push_back((7 * i + 3 * which + 1) % vocab_size_);
    std::vector<int32_t> pages(static_cast<size_t>((count - 1) / kPageTokens + 1));
    std::iota(pages.begin(), pages.end(), step_.num_blocks());
    const int32_t last = step_.AddTokens(tokens, 0, pages) + count - 1;
    for (int32_t choice = 0; choice < num_samples; ++choice) {
      step_.AddSample(last, params, choice, count).counts = counts;
    }
  }

  // Adds a sequence like Add, and scores each of its positions.
  void AddScored(int32_t which, int32_t count, const SamplingParams& params, int32_t num_samples) {
    const int32_t first = step_.num_tokens();
    Add(which, count, params, num_samples);
    for (int32_t i = 0; i < count; ++i) {
      step_.AddScore({.row = first + i, .target = (i + which) % vocab_size_, .num_top = 0});
    }
  }

  // Adds one token at `position` of a sequence, and a sample after this token.
  StepSample& Continue(TokenId token, int32_t position, int32_t page, int32_t num_pages,
                       const SamplingParams& params) {
    const std::vector<int32_t> pages(static_cast<size_t>(num_pages), page);
    return step_.AddSample(step_.AddTokens({&token, 1}, position, pages), params, 0, position + 1);
  }

  Step step() const { return step_.Build(); }

 private:
  int32_t vocab_size_;
  StepBuilder step_;
};

class StepsTest : public testing::Test {
 protected:
  StepsTest() {
    backend_ = *CreateCudaBackend({});
    model_ = *LoadModel(SourceFolder() / "tests/golden/hf/llama-bf16", *backend_);
    greedy_.temperature = 0;
    hot_.temperature = 0.9F;
    hot_.seed = 5;
  }

  std::unique_ptr<TransformerRunner> RunnerFor(int32_t step_tokens_max, int32_t samples_max) {
    TransformerRunnerOptions options;
    options.block_size = kPageTokens;
    options.num_blocks = 400;
    options.step_tokens_max = step_tokens_max;
    options.samples_max = samples_max;
    options.max_model_len = kContext;
    return *TransformerRunner::Create(*backend_, *model_, options);
  }

  Sequences Empty() const { return Sequences(model_->config.vocab_size); }

  static std::vector<TokenId> Run(TransformerRunner& runner, const Sequences& sequences) {
    EXPECT_TRUE(runner.Launch(sequences.step()).ok());
    StepResult result;
    const absl::Status status = runner.Wait(result);
    EXPECT_TRUE(status.ok()) << status;
    return result.tokens;
  }

  // Returns samples of the sequences [0, count). Each step has `at_once` sequences.
  std::vector<TokenId> Sampled(TransformerRunner& runner, int32_t count, int32_t at_once,
                               int32_t num_samples) {
    std::vector<TokenId> sampled;
    for (int32_t first = 0; first < count; first += at_once) {
      Sequences some = Empty();
      for (int32_t which = first; which < std::min(count, first + at_once); ++which) {
        some.Add(which, 1, which % 2 == 0 ? greedy_ : hot_, num_samples);
      }
      const std::vector<TokenId> tokens = Run(runner, some);
      sampled.insert(sampled.end(), tokens.begin(), tokens.end());
    }
    return sampled;
  }

  std::unique_ptr<Backend> backend_;
  std::optional<Model> model_;
  SamplingParams greedy_, hot_;
};

TEST_F(StepsTest, MoreRowsThanLogitsAreComputedOfAtOnce) {
  const auto runner = RunnerFor(264, 264);
  EXPECT_EQ(Sampled(*runner, 264, 264, 1), Sampled(*runner, 264, 88, 1));
}

TEST_F(StepsTest, MoreSamplesThanGoWithAStep) {
  const auto runner = RunnerFor(64, 264);
  EXPECT_EQ(Sampled(*runner, 33, 33, 8), Sampled(*runner, 33, 11, 8));
}

// The request has penalties for all tokens of the vocabulary, and each of them changes one logit.
TEST_F(StepsTest, ManyPenaltiesAreAppliedWithinTheGraph) {
  const auto runner = RunnerFor(256, 256);
  SamplingParams params = hot_;
  params.repetition_penalty = 1.2F;
  std::vector<TokenCount> counts;
  for (TokenId token = 0; token < model_->config.vocab_size; ++token) {
    counts.push_back({.token = token, .in_prompt = 1, .in_output = token % 3});
  }
  const auto num_rows = static_cast<int32_t>((1 << 14) / std::ssize(counts)) + 8;
  ASSERT_LE(num_rows, 256);
  Sequences sequences = Empty();
  for (int32_t which = 0; which < num_rows; ++which) sequences.Add(which, 1, params, 1, counts);
  const int64_t launched = emulator::CountsOfGraphs().launched;
  Run(*runner, sequences);
  EXPECT_EQ(emulator::CountsOfGraphs().launched, launched + 1);
}

// Recording a graph while requests are served would delay the requests and take memory from the
// cache.
TEST_F(StepsTest, NothingIsRecordedAfterTheStart) {
  const auto runner = RunnerFor(64, 64);
  const int64_t recorded = emulator::CountsOfGraphs().recorded;
  for (int32_t i = 0; i < 3; ++i) {
    Sequences scored = Empty(), silent = Empty();
    scored.AddScored(0, 5, greedy_, 1);
    scored.Add(1, 1, hot_, 1);
    Run(*runner, scored);
    silent.Add(2, 7, greedy_, 0);
    Run(*runner, silent);
  }
  EXPECT_EQ(emulator::CountsOfGraphs().recorded, recorded);
}

// In the middle of the run, a step has more pages than the runner has reserved memory for. The
// runner then drops its recorded graphs, but must keep the sampled tokens.
TEST_F(StepsTest, AStepThatTakesMemoryIsFedWhatThePreviousStepSampled) {
  constexpr int32_t kSequences = 3, kSteps = 5, kLarge = 2;
  const auto runner = RunnerFor(64, 64);
  const auto step_of = [&](int32_t step, const auto& token_of) {
    Sequences sequences = Empty();
    for (int32_t s = 0; s < kSequences; ++s) {
      const int32_t num_pages = step == kLarge && s == kSequences - 1 ? 70'000 : 1;
      sequences.Continue(step == 0 ? 5 + s : token_of(s), step, s, num_pages,
                         s == 0 ? hot_ : greedy_);
    }
    return sequences;
  };
  std::vector<std::vector<TokenId>> by_host, fed;
  for (int32_t step = 0; step < kSteps; ++step) {
    by_host.push_back(
        Run(*runner, step_of(step, [&](int32_t s) { return by_host.back()[size_t(s)]; })));
  }
  const auto wait = [&] {
    StepResult result;
    EXPECT_TRUE(runner->Wait(result).ok());
    fed.push_back(result.tokens);
  };
  std::vector<Sequences> steps;
  for (int32_t step = 0; step < kSteps; ++step) {
    steps.push_back(step_of(step, [](int32_t s) { return -1 - s; }));
  }
  for (int32_t step = 0; step < kSteps; ++step) {
    EXPECT_TRUE(runner->Launch(steps[size_t(step)].step()).ok());
    if (step > 0) wait();
  }
  wait();
  EXPECT_EQ(fed, by_host);
}

// A step that writes blocks replays the same recorded graph as a step without writes. The bytes of
// the writes are overwritten as soon as the step has finished.
TEST_F(StepsTest, AReplayedStepAttendsToTheBlocksThatItWrites) {
  constexpr int32_t kSequences = 3;
  const auto computing = RunnerFor(64, 64), loading = RunnerFor(64, 64);
  std::vector<std::byte> bytes(kSequences * computing->block_bytes());
  for (int32_t s = 0; s < kSequences; ++s) {
    Sequences prompt = Empty();
    prompt.Add(s, kPageTokens, greedy_, 0);
    Run(*computing, prompt);
    const BlockId first{0};  // the page of a step's first sequence
    const auto part = std::span(bytes).subspan(size_t(s) * computing->block_bytes());
    ASSERT_TRUE(computing->ReadBlocks({&first, 1}, part.first(computing->block_bytes())).ok());
  }
  const auto decode_of = [&](int32_t first_page) {
    StepBuilder step;
    for (int32_t s = 0; s < kSequences; ++s) {
      const TokenId token = 3 + s;
      const int32_t pages[] = {first_page + s, first_page + kSequences + s};
      const int32_t row = step.AddTokens({&token, 1}, kPageTokens, pages);
      step.AddSample(row, s == 0 ? hot_ : greedy_, 0, kPageTokens + 1);
    }
    return step;
  };
  const auto run = [&](TransformerRunner& runner, const StepBuilder& step) {
    EXPECT_TRUE(runner.Launch(step.Build()).ok());
    StepResult result;
    const absl::Status status = runner.Wait(result);
    EXPECT_TRUE(status.ok()) << status;
    return result.tokens;
  };
  const auto with_writes = [&](int32_t first_page) {
    StepBuilder step = decode_of(first_page);
    for (int32_t s = 0; s < kSequences; ++s) {
      step.AddWrite({BlockId{first_page + s}, bytes.data() + size_t(s) * loading->block_bytes()});
    }
    return step;
  };
  const std::vector<std::byte> kept = bytes;
  const int64_t launched = emulator::CountsOfGraphs().launched;
  const std::vector<TokenId> loaded = run(*loading, with_writes(10));
  EXPECT_EQ(emulator::CountsOfGraphs().launched, launched + 1);
  std::ranges::fill(bytes, std::byte{0x7f});
  EXPECT_EQ(run(*loading, decode_of(10)), loaded);  // the blocks keep what the first step wrote
  bytes = kept;
  EXPECT_EQ(run(*loading, with_writes(30)), loaded);
  EXPECT_EQ(emulator::CountsOfGraphs().launched, launched + 3);

  // Computes the expected tokens without writes.
  for (int32_t s = 0; s < kSequences; ++s) {
    Sequences prompt = Empty();
    prompt.Add(s, kPageTokens, greedy_, 0);
    Run(*computing, prompt);
    StepBuilder copy = decode_of(50);
    copy.AddCopy({BlockId{0}, BlockId{50 + s}, kPageTokens});
    const std::vector<TokenId> tokens = run(*computing, copy);
    EXPECT_EQ(tokens[size_t(s)], loaded[size_t(s)]);
  }
}

// The second step in flight writes the block that the test reads while the first step is in flight.
TEST_F(StepsTest, BlocksAreReadAndWrittenWhileAStepIsInFlight) {
  const auto runner = RunnerFor(64, 64);
  Sequences prompt = Empty();
  prompt.Add(1, kPageTokens, greedy_, 0);
  Run(*runner, prompt);
  Sequences first = Empty();
  for (int32_t s = 5; s < 8; ++s) first.Continue(s, 0, s, 1, greedy_);
  ASSERT_TRUE(runner->Launch(first.step()).ok());
  std::vector<std::byte> bytes(runner->block_bytes()), again(bytes.size());
  const BlockId computed{0}, written{20};
  ASSERT_TRUE(runner->ReadBlocks({&computed, 1}, bytes).ok());
  EXPECT_NE(bytes, again);

  StepBuilder second;
  second.AddWrite({written, bytes.data()});
  const int32_t pages[][2] = {{0, 1}, {20, 21}};
  const TokenId token = 9;
  for (const auto& table : pages) {
    second.AddSample(second.AddTokens({&token, 1}, kPageTokens, table), greedy_, 0,
                     kPageTokens + 1);
  }
  ASSERT_TRUE(runner->Launch(second.Build()).ok());
  StepResult result;
  ASSERT_TRUE(runner->Wait(result).ok());
  ASSERT_TRUE(runner->Wait(result).ok());
  ASSERT_EQ(result.tokens.size(), 2u);
  EXPECT_EQ(result.tokens[0], result.tokens[1]);
  ASSERT_TRUE(runner->ReadBlocks({&written, 1}, again).ok());
  EXPECT_EQ(again, bytes);
}

// Compares the keys and values that the emulated device computes with those of the current numerics
// version. A card may round some values differently, but a change of a kernel changes both. If the
// test fails, follow the instructions in tests/exactness/kv_bits_test.cpp.
TEST_F(StepsTest, TheBitsOfKeysAndValuesAreThoseOfTheNumericsVersion) {
  const auto runner = RunnerFor(64, 64);
  Sequences prompt = Empty();
  prompt.Add(1, kPageTokens - 2, greedy_, 0);
  Run(*runner, prompt);
  for (int32_t i = kPageTokens - 2; i < kPageTokens; ++i) {
    Sequences decode = Empty();
    decode.Continue(9 + i, i, 0, 1, greedy_);
    Run(*runner, decode);
  }
  std::vector<std::byte> bytes(runner->block_bytes());
  const BlockId computed{0};
  ASSERT_TRUE(runner->ReadBlocks({&computed, 1}, bytes).ok());
  const Sha256Digest digest =
      Sha256({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
  EXPECT_EQ(kNumericsVersion, 1) << "replace this number";
  EXPECT_EQ(kKvLayoutVersion, 1) << "replace this number";
  EXPECT_EQ(fmt::format("{:02x}", fmt::join(digest, "")),
            "a7876963d56437a326465cf534d44e4b2fbb4bec70f7fa5788d9585ae4e54d3d");
}

// Counts the tokens of an output, for a sequence without a prompt.
std::vector<TokenCount> CountsOf(std::vector<TokenId> tokens) {
  std::ranges::sort(tokens);
  std::vector<TokenCount> counts;
  for (const TokenId token : tokens) {
    if (counts.empty() || counts.back().token != token) counts.push_back({.token = token});
    ++counts.back().in_output;
  }
  return counts;
}

TEST_F(StepsTest, PenaltiesCountAFedTokenAsIfTheHostKnewIt) {
  constexpr int32_t kSequences = 11, kSteps = 12;
  const auto runner = RunnerFor(64, 64);
  std::vector<SamplingParams> params(kSequences, hot_);
  for (int32_t s = 0; s < kSequences; ++s) {
    if (s % 2 == 0) params[size_t(s)].temperature = 0;
    params[size_t(s)].repetition_penalty = s % 3 == 0 ? 1.3F : 1;
    params[size_t(s)].frequency_penalty = s % 3 == 1 ? 0.2F : 0;
    params[size_t(s)].presence_penalty = s % 4 == 2 ? 0.3F : 0;
  }
  // Tokens that each sequence has sampled: [sequence][step].
  using Outputs = std::vector<std::vector<TokenId>>;
  const auto keep = [](const std::vector<TokenId>& tokens, Outputs& outputs) {
    for (size_t s = 0; s < tokens.size(); ++s) outputs[s].push_back(tokens[s]);
  };
  Outputs by_host(kSequences), fed(kSequences);
  for (int32_t step = 0; step < kSteps; ++step) {
    std::vector<std::vector<TokenCount>> counts;
    for (const std::vector<TokenId>& output : by_host) counts.push_back(CountsOf(output));
    Sequences sequences = Empty();
    for (int32_t s = 0; s < kSequences; ++s) {
      const TokenId token = step == 0 ? 5 + s : by_host[size_t(s)].back();
      sequences.Continue(token, step, s, 1, params[size_t(s)]).counts = counts[size_t(s)];
    }
    keep(Run(*runner, sequences), by_host);
  }

  const int64_t launched = emulator::CountsOfGraphs().launched;
  std::vector<Sequences> steps(kSteps, Empty());
  StepResult result;
  for (int32_t step = 0; step < kSteps; ++step) {
    std::vector<std::vector<TokenCount>> counts;
    for (const std::vector<TokenId>& output : fed) counts.push_back(CountsOf(output));
    for (int32_t s = 0; s < kSequences; ++s) {
      StepSample& sample =
          steps[size_t(step)].Continue(step == 0 ? 5 + s : -1 - s, step, s, 1, params[size_t(s)]);
      sample.counts = counts[size_t(s)];
      sample.pending_sample = step == 0 ? -1 : s;
    }
    EXPECT_TRUE(runner->Launch(steps[size_t(step)].step()).ok());
    if (step == 0) continue;
    EXPECT_TRUE(runner->Wait(result).ok());
    keep(result.tokens, fed);
  }
  EXPECT_TRUE(runner->Wait(result).ok());
  keep(result.tokens, fed);
  EXPECT_EQ(fed, by_host);
  EXPECT_EQ(emulator::CountsOfGraphs().launched, launched + kSteps);
}

// If the scores of a step need more rounds than can be in flight, the launch of the step waits. The
// launch then detects the fault of the device. The next step may already expect a token that this
// step would have sampled.
TEST_F(StepsTest, AFaultThatALaunchFindsIsTheStatusOfTheStepsAfterIt) {
  const auto runner = RunnerFor(2400, 64);
  Sequences many = Empty(), next = Empty();
  for (int32_t which = 0; which < 21; ++which) many.AddScored(which, 110, greedy_, which / 20);
  next.Continue(-1, 110, 0, 7, greedy_);
  emulator::BreakDevice(true);
  EXPECT_TRUE(runner->Launch(many.step()).ok());
  EXPECT_TRUE(runner->Launch(next.step()).ok());
  StepResult result;
  EXPECT_FALSE(runner->Wait(result).ok());
  EXPECT_FALSE(runner->Wait(result).ok());
  emulator::BreakDevice(false);
}

}  // namespace
}  // namespace incipit
