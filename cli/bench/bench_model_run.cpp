#include "cli/bench/bench_model_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/random.h"
#include "base/status.h"

namespace incipit {
namespace {

constexpr int32_t kBlockSize = 16;
constexpr uint64_t kTokenSeed = 1;
constexpr int32_t kWarmUpSteps = 2;

int32_t BlocksFor(int32_t num_positions) { return (num_positions + kBlockSize - 1) / kBlockSize; }

int32_t PositionsMax(const BenchModelPlan& plan) {
  return std::max(plan.prompt, plan.decode_prompt + plan.generate);
}

int32_t SequencesMax(const BenchModelPlan& plan) {
  return *std::max_element(plan.sequences.begin(), plan.sequences.end());
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

TransformerRunnerOptions RunnerOptions(const BenchModelPlan& plan) {
  TransformerRunnerOptions options;
  options.block_size = kBlockSize;
  options.num_blocks = SequencesMax(plan) * BlocksFor(PositionsMax(plan));
  options.step_tokens_max = std::max(plan.step_tokens, SequencesMax(plan));
  options.samples_max = SequencesMax(plan);
  options.max_model_len = PositionsMax(plan);
  options.kv_dtype = plan.kv_dtype;
  return options;
}

// Runs steps (batches) of prefill and decode for several sequences of random tokens. Each sequence
// has its own cache blocks.
class StepDriver {
 public:
  StepDriver(TransformerRunner& runner, int32_t vocab_size, int32_t blocks_each)
      : runner_(runner), vocab_size_(vocab_size), blocks_each_(blocks_each) {
    greedy_.temperature = 0;
  }

  // Computes the prompt tokens [begin, end) of `sequence` in one step. If `samples` is true, the
  // step also samples a token after the last prompt token.
  absl::Status Prefill(int32_t sequence, int32_t begin, int32_t end, bool samples) {
    Clear();
    for (int32_t position = begin; position < end; ++position) {
      AddToken(RandomToken(sequence, position), position);
    }
    EndSequence(sequence, end, samples);
    return Run();
  }

  // Copies the keys and values of the first `num_positions` positions of sequence 0 to the
  // sequences [1, num_sequences). One step (batch) makes all copies. A step must compute a token,
  // so the step also computes the last of these positions of sequence 0 again.
  absl::Status CopyPrompt(int32_t num_sequences, int32_t num_positions) {
    copies_.clear();
    for (int32_t s = 1; s < num_sequences; ++s) {
      for (int32_t i = 0; i < BlocksFor(num_positions); ++i) {
        copies_.push_back({BlockId{i}, BlockId{s * blocks_each_ + i}, kBlockSize});
      }
    }
    const absl::Status status = Prefill(0, num_positions - 1, num_positions, false);
    copies_.clear();
    return status;
  }

  // Computes one token at `position` for each of the sequences [0, num_sequences). If `is_first` is
  // true, the tokens are random. Otherwise the tokens are those that the previous step sampled.
  absl::Status Decode(int32_t num_sequences, int32_t position, bool is_first) {
    sampled_.swap(result_.tokens);
    Clear();
    for (int32_t s = 0; s < num_sequences; ++s) {
      AddToken(is_first ? RandomToken(s, position) : sampled_[static_cast<size_t>(s)], position);
      EndSequence(s, position + 1, true);
    }
    return Run();
  }

 private:
  TokenId RandomToken(int32_t sequence, int32_t position) const {
    const uint64_t bits =
        RandomBits(kTokenSeed, static_cast<uint32_t>(sequence), static_cast<uint64_t>(position));
    return static_cast<TokenId>(bits % static_cast<uint64_t>(vocab_size_));
  }

  void Clear() {
    tokens_.clear();
    positions_.clear();
    token_begin_.assign(1, 0);
    block_begin_.assign(1, 0);
    blocks_.clear();
    samples_.clear();
    sample_begin_.assign(1, 0);
    score_begin_.assign(1, 0);
  }
  void AddToken(TokenId token, int32_t position) {
    tokens_.push_back(token);
    positions_.push_back(position);
  }
  void EndSequence(int32_t sequence, int32_t num_positions, bool samples) {
    for (int32_t i = 0; i < BlocksFor(num_positions); ++i) {
      blocks_.push_back(BlockId{sequence * blocks_each_ + i});
    }
    token_begin_.push_back(static_cast<int32_t>(tokens_.size()));
    block_begin_.push_back(static_cast<int32_t>(blocks_.size()));
    if (samples) {
      samples_.push_back({.row = static_cast<int32_t>(tokens_.size()) - 1,
                          .params = &greedy_,
                          .position = num_positions});
    }
    sample_begin_.push_back(static_cast<int32_t>(samples_.size()));
    score_begin_.push_back(0);
  }

  absl::Status Run() {
    INCIPIT_RETURN_IF_ERROR(runner_.Launch({.tokens = tokens_,
                                            .positions = positions_,
                                            .token_begin = token_begin_,
                                            .block_begin = block_begin_,
                                            .blocks = blocks_,
                                            .copies = copies_,
                                            .sample_begin = sample_begin_,
                                            .samples = samples_,
                                            .score_begin = score_begin_}));
    INCIPIT_RETURN_IF_ERROR(runner_.Wait(result_));
    for (const RowStatus status : result_.status) {
      if (status != RowStatus::kOk) {
        return FailedPrecondition("the model's logits are not finite");
      }
    }
    return absl::OkStatus();
  }

  TransformerRunner& runner_;
  const int32_t vocab_size_, blocks_each_;
  SamplingParams greedy_;
  std::vector<TokenId> tokens_, sampled_;
  std::vector<int32_t> positions_, token_begin_, block_begin_, sample_begin_, score_begin_;
  std::vector<BlockId> blocks_;
  std::vector<BlockCopy> copies_;
  std::vector<StepSample> samples_;
  StepResult result_;
};

// Measures prefill and decode of one model, and computes the minimum work (arithmetic operations
// and bytes read) of the measured steps.
class Measurement {
 public:
  Measurement(const BenchModelPlan& plan, const ModelConfig& config, const ModelTypes& types,
              TimedBackend& backend, TransformerRunner& runner)
      : plan_(plan),
        config_(config),
        types_(types),
        backend_(backend),
        driver_(runner, config.vocab_size, BlocksFor(PositionsMax(plan))) {}

  absl::StatusOr<ModelSpeed> Prefill() {
    ModelSpeed speed{.num_sequences = 1,
                     .num_tokens = plan_.prompt,
                     .seconds = 0,
                     .steps = {},
                     .operation_seconds = {}};
    for (int32_t begin = 0; begin < plan_.prompt; begin += plan_.step_tokens) {
      const int32_t end = std::min(begin + plan_.step_tokens, plan_.prompt);
      const BenchStep shape = {.num_sequences = 1,
                               .num_tokens = end - begin,
                               .position = begin,
                               .has_logits = end == plan_.prompt};
      speed.steps.push_back(WorkOf(config_, types_, shape));
    }
    INCIPIT_RETURN_IF_ERROR(RunPrompt(0, plan_.prompt));  // warm-up run, which is not measured
    INCIPIT_RETURN_IF_ERROR(TakeTimes(speed, [this] { return RunPrompt(0, plan_.prompt); }));
    return speed;
  }

  // Stores the keys and values of a prompt for each sequence, before decode is measured. The prompt
  // is computed for sequence 0 only, and its keys and values are copied to the other sequences.
  absl::Status PreparePrompts() {
    INCIPIT_RETURN_IF_ERROR(RunPrompt(0, plan_.decode_prompt));
    return driver_.CopyPrompt(SequencesMax(plan_), plan_.decode_prompt);
  }

  absl::StatusOr<ModelSpeed> Decode(int32_t num_sequences) {
    ModelSpeed speed{.num_sequences = num_sequences,
                     .num_tokens = int64_t{num_sequences} * plan_.generate,
                     .seconds = 0,
                     .steps = {},
                     .operation_seconds = {}};
    for (int32_t step = 0; step < plan_.generate; ++step) {
      const BenchStep shape = {.num_sequences = num_sequences,
                               .num_tokens = 1,
                               .position = plan_.decode_prompt + step,
                               .has_logits = true};
      speed.steps.push_back(WorkOf(config_, types_, shape));
    }
    INCIPIT_RETURN_IF_ERROR(RunSteps(num_sequences, std::min(kWarmUpSteps, plan_.generate)));
    INCIPIT_RETURN_IF_ERROR(
        TakeTimes(speed, [&] { return RunSteps(num_sequences, plan_.generate); }));
    return speed;
  }

 private:
  absl::Status RunPrompt(int32_t sequence, int32_t length) {
    for (int32_t begin = 0; begin < length; begin += plan_.step_tokens) {
      const int32_t end = std::min(begin + plan_.step_tokens, length);
      INCIPIT_RETURN_IF_ERROR(driver_.Prefill(sequence, begin, end, end == length));
    }
    return absl::OkStatus();
  }

  absl::Status RunSteps(int32_t num_sequences, int32_t num_steps) {
    for (int32_t step = 0; step < num_steps; ++step) {
      INCIPIT_RETURN_IF_ERROR(driver_.Decode(num_sequences, plan_.decode_prompt + step, step == 0));
    }
    return absl::OkStatus();
  }

  // Calls `run` plan_.repeat times. Stores the median time of a call of `run` and the mean time of
  // each operation per call in `speed`.
  absl::Status TakeTimes(ModelSpeed& speed, const std::function<absl::Status()>& run) {
    const SteadyClock clock;
    std::vector<double> seconds;
    backend_.TakeSeconds();
    for (int32_t i = 0; i < plan_.repeat; ++i) {
      const Time begin = clock.Now();
      INCIPIT_RETURN_IF_ERROR(run());
      seconds.push_back(ToSeconds(clock.Now() - begin));
    }
    speed.seconds = Median(std::move(seconds));
    speed.operation_seconds = backend_.TakeSeconds();
    for (double& one : speed.operation_seconds) one /= plan_.repeat;
    return absl::OkStatus();
  }

  const BenchModelPlan& plan_;
  const ModelConfig& config_;
  const ModelTypes types_;
  TimedBackend& backend_;
  StepDriver driver_;
};

absl::Status CheckLengths(const BenchModelPlan& plan, const ModelConfig& config) {
  if (PositionsMax(plan) <= config.max_positions) return absl::OkStatus();
  if (plan.prompt > config.max_positions) {
    return MakeStatus(absl::StatusCode::kOutOfRange,
                      "--prompt is {}; the model's context is {} tokens", plan.prompt,
                      config.max_positions);
  }
  return MakeStatus(absl::StatusCode::kOutOfRange,
                    "--decode-prompt and --generate add up to {}; the model's context is {} tokens",
                    plan.decode_prompt + plan.generate, config.max_positions);
}

// Runs all measurements of `plan`. Also measures the arithmetic rates and the read bandwidth of the
// machine several times, and keeps the highest values.
absl::Status Measure(const BenchModelPlan& plan, Backend& backend, Measurement& measurement,
                     BenchModelResult& result,
                     const std::function<void(std::string_view)>& report) {
  const auto measure_machine = [&] {
    result.machine = LargerRates(result.machine, backend.MeasureRates());
  };
  report("rates of the machine");
  result.machine = backend.MeasureRates();
  report(fmt::format("prefill of {} tokens", plan.prompt));
  INCIPIT_ASSIGN_OR_RETURN(ModelSpeed prefill, measurement.Prefill());
  result.prefill.push_back(std::move(prefill));
  measure_machine();
  report(fmt::format("preparation of the decode measurement: prefill of {} prompt tokens",
                     plan.decode_prompt));
  INCIPIT_RETURN_IF_ERROR(measurement.PreparePrompts());
  for (const int32_t num_sequences : plan.sequences) {
    report(fmt::format("decode, {} sequences", num_sequences));
    INCIPIT_ASSIGN_OR_RETURN(ModelSpeed decode, measurement.Decode(num_sequences));
    result.decode.push_back(std::move(decode));
    measure_machine();
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<BenchModelResult> BenchModel(const BenchModelPlan& plan,
                                            const std::function<void(std::string_view)>& report) {
  const auto created = CreateCpuBackend(plan.cpu);
  if (absl::IsInvalidArgument(created.status())) {
    return MakeStatus(absl::StatusCode::kOutOfRange, "{}", MessageOf(created.status()));
  }
  INCIPIT_RETURN_IF_ERROR(created.status());
  Backend* const backend = created->get();
  report("loading");
  INCIPIT_ASSIGN_OR_RETURN(const Model model, LoadModel(plan.folder, *backend, plan.weights));
  INCIPIT_RETURN_IF_ERROR(CheckLengths(plan, model.config));
  TimedBackend timed(*backend, model.config.intermediate_size);
  INCIPIT_ASSIGN_OR_RETURN(const auto runner,
                           TransformerRunner::Create(timed, model, RunnerOptions(plan)));
  BenchModelResult result;
  const bool is_int8 = plan.weights == WeightFormat::kInt8;
  result.types = {.weights = is_int8 ? MatrixType::kInt8 : MatrixTypeOf(model.weights.dtype),
                  .kv = *runner->options().kv_dtype};
  Measurement measurement(plan, model.config, result.types, timed, *runner);
  INCIPIT_RETURN_IF_ERROR(Measure(plan, timed, measurement, result, report));
  return result;
}

}  // namespace incipit
