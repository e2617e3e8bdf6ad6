#include "engine/transformer_runner.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "kvcache/kv_layout.h"
#include "transformer/rope.h"

namespace incipit {
namespace {

// Largest values of options that Create accepts. Useful values are far lower. The limits ensure
// that products of options, such as memory sizes, fit into 64 bits.
constexpr int32_t kStepTokensLimit = 1 << 20;
constexpr int32_t kSamplesLimit = 1 << 20;
// A backend reserves memory for at least this number of block ids in a step, summed over all
// sequences.
constexpr int32_t kReservedBlocks = 1 << 16;

absl::Status CheckRange(std::string_view name, int64_t value, int64_t min, int64_t max) {
  if (value >= min && value <= max) return absl::OkStatus();
  return InvalidArgument("{} is {}; it must be from {} to {}", name, value, min, max);
}

template <typename T>
bool Contains(const std::vector<T>& list, T value) {
  return std::ranges::find(list, value) != list.end();
}

absl::StatusOr<std::unique_ptr<Buffer>> AllocateMatrix(Backend& backend, int64_t rows, int64_t cols,
                                                       DType dtype) {
  return backend.Allocate(static_cast<size_t>(rows) * static_cast<size_t>(cols) * ByteSize(dtype));
}

// Aborts if `entries` (the samples or the scores of a step) are not sorted by sequence and, within
// a sequence, by token. begin[s] must be the index of the first entry of sequence s.
template <class Entry>
void CheckRanges(const Step& step, std::span<const int32_t> begin, std::span<const Entry> entries) {
  INCIPIT_CHECK(begin.size() == step.token_begin.size());
  INCIPIT_CHECK(!begin.empty() && begin.front() == 0);
  INCIPIT_CHECK(begin.back() == std::ssize(entries));
  for (size_t s = 0; s + 1 < begin.size(); ++s) {
    INCIPIT_CHECK(begin[s] <= begin[s + 1]);
    int32_t lowest = step.token_begin[s];
    for (int32_t i = begin[s]; i < begin[s + 1]; ++i) {
      INCIPIT_CHECK(entries[i].row >= lowest && entries[i].row < step.token_begin[s + 1]);
      lowest = entries[i].row;
    }
  }
}

}  // namespace

TransformerRunner::TransformerRunner(Backend& backend, const Model& model,
                                     const TransformerRunnerOptions& options)
    : backend_(backend),
      model_(model),
      hidden_dtype_(backend.limits().hidden_dtype),
      activation_dtype_(backend.limits().activation_dtype),
      options_(options) {}

absl::StatusOr<std::unique_ptr<TransformerRunner>> TransformerRunner::Create(
    Backend& backend, const Model& model, const TransformerRunnerOptions& options) {
  std::unique_ptr<TransformerRunner> runner(new TransformerRunner(backend, model, options));
  INCIPIT_RETURN_IF_ERROR(runner->CheckOptions());
  absl::Status status = runner->Allocate();
  if (status.ok()) status = runner->Reserve();
  if (absl::IsResourceExhausted(status)) {
    return Annotate(
        status, fmt::format("not enough memory for steps of {} tokens", options.step_tokens_max));
  }
  INCIPIT_RETURN_IF_ERROR(status);
  INCIPIT_RETURN_IF_ERROR(runner->AllocatePool());
  INCIPIT_RETURN_IF_ERROR(runner->RecordSteps());
  return runner;
}

absl::Status TransformerRunner::CheckOptions() {
  const ModelConfig& config = model_.config;
  const BackendLimits limits = backend_.limits();
  if (options_.max_model_len == 0) options_.max_model_len = config.max_positions;
  if (!options_.kv_dtype) {
    const bool wants_f32 = model_.weights.dtype == DType::kF32;
    options_.kv_dtype =
        wants_f32 && Contains(limits.kv_dtypes, DType::kF32) ? DType::kF32 : DType::kBF16;
  }
  INCIPIT_RETURN_IF_ERROR(
      CheckRange("max_model_len", options_.max_model_len, 1, config.max_positions));
  INCIPIT_RETURN_IF_ERROR(
      CheckRange("step_tokens_max", options_.step_tokens_max, 1, kStepTokensLimit));
  INCIPIT_RETURN_IF_ERROR(CheckRange("samples_max", options_.samples_max, 1, kSamplesLimit));
  INCIPIT_RETURN_IF_ERROR(CheckRange("num_blocks", options_.num_blocks, 0, kBlocksMax));
  INCIPIT_RETURN_IF_ERROR(CheckRange("num_blocks_max", options_.num_blocks_max, 0, kBlocksMax));
  INCIPIT_RETURN_IF_ERROR(CheckRange("block_size", options_.block_size, 1, kBlockSizeMax));
  if (!(options_.memory_fraction > 0) || !(options_.memory_fraction <= 1)) {
    return InvalidArgument("memory_fraction is {}; it must be above 0 and at most 1",
                           options_.memory_fraction);
  }
  if (!limits.block_sizes.empty() && !Contains(limits.block_sizes, options_.block_size)) {
    return Unimplemented("block_size is {}; the backend {} supports {}", options_.block_size,
                         limits.name, fmt::join(limits.block_sizes, ", "));
  }
  if (!Contains(limits.kv_dtypes, *options_.kv_dtype)) {
    return Unimplemented("kv_dtype is {}, which the backend {} does not support",
                         NameOf(*options_.kv_dtype), limits.name);
  }
  return absl::OkStatus();
}

absl::Status TransformerRunner::Allocate() {
  const ModelConfig& config = model_.config;
  const std::vector<float> table = RopeTable(config.rope, config.head_dim, options_.max_model_len);
  const ConstTensorView view = {.data = table.data(),
                                .dtype = DType::kF32,
                                .rows = options_.max_model_len,
                                .cols = config.head_dim};
  INCIPIT_ASSIGN_OR_RETURN(rope_, backend_.Store({&view, 1}));
  transformer_.emplace(config, model_.weights, *rope_, backend_);

  const DType dtype = activation_dtype_;
  const int64_t rows = options_.step_tokens_max;
  const int64_t query_size = int64_t{config.num_heads} * config.head_dim;
  INCIPIT_ASSIGN_OR_RETURN(hidden_,
                           AllocateMatrix(backend_, rows, config.hidden_size, hidden_dtype_));
  INCIPIT_ASSIGN_OR_RETURN(query_, AllocateMatrix(backend_, rows, query_size, dtype));
  INCIPIT_ASSIGN_OR_RETURN(attention_, AllocateMatrix(backend_, rows, query_size, dtype));
  INCIPIT_ASSIGN_OR_RETURN(mlp_, AllocateMatrix(backend_, rows, config.intermediate_size, dtype));
  logits_rows_max_ = std::min(backend_.limits().logits_rows, options_.step_tokens_max);
  INCIPIT_ASSIGN_OR_RETURN(
      logits_, AllocateMatrix(backend_, logits_rows_max_, config.vocab_size, DType::kF32));
  for (Slot& slot : slots_) {
    slot.logits.Reserve(logits_rows_max_, options_.step_tokens_max, options_.samples_max);
  }
  return absl::OkStatus();
}

absl::Status TransformerRunner::Reserve() {
  const int64_t blocks_each = (options_.max_model_len - 1) / options_.block_size + 1;
  const ModelConfig& config = model_.config;
  std::vector<int32_t> windows = config.layer_windows;
  std::ranges::sort(windows);
  windows.erase(std::unique(windows.begin(), windows.end()), windows.end());
  return backend_.Reserve({.tokens_max = options_.step_tokens_max,
                           .sequences_max = options_.step_tokens_max,
                           .blocks_max = std::max(blocks_each, int64_t{kReservedBlocks}),
                           .samples_max = options_.samples_max,
                           .model = {.hidden_size = config.hidden_size,
                                     .intermediate_size = config.intermediate_size,
                                     .vocab_size = config.vocab_size,
                                     .num_heads = config.num_heads,
                                     .num_kv_heads = config.num_kv_heads,
                                     .head_dim = config.head_dim,
                                     .block_size = options_.block_size,
                                     .windows = std::move(windows)}});
}

absl::Status TransformerRunner::AllocatePool() {
  const ModelConfig& config = model_.config;
  const DType dtype = *options_.kv_dtype;
  const KvLayout layout = {.num_layers = config.num_layers,
                           .num_kv_heads = config.num_kv_heads,
                           .head_dim = config.head_dim,
                           .bytes_per_element = static_cast<int32_t>(ByteSize(dtype)),
                           .block_size = options_.block_size};
  KvPoolShape shape = {.num_layers = config.num_layers,
                       .num_blocks = options_.num_blocks,
                       .block_size = options_.block_size,
                       .num_kv_heads = config.num_kv_heads,
                       .head_dim = config.head_dim,
                       .dtype = dtype};
  if (shape.num_blocks == 0) {
    const size_t free = backend_.FreeBytes();
    const size_t usable =
        options_.kv_bytes > 0
            ? options_.kv_bytes
            : static_cast<size_t>(static_cast<double>(free) * options_.memory_fraction);
    shape.num_blocks = BlocksThatFit(layout, usable);
    if (options_.num_blocks_max > 0) {
      shape.num_blocks = std::min(shape.num_blocks, options_.num_blocks_max);
    }
    if (shape.num_blocks < 1) {
      return ResourceExhausted(
          "no room for keys and values: a block of {} tokens needs {} bytes, "
          "but only {} of the {} free bytes may be used; {} bytes are missing",
          layout.block_size, BytesPerBlock(layout), usable, free,
          static_cast<size_t>(BytesPerBlock(layout)) - usable);
    }
  }
  auto pool = backend_.CreateKvPool(shape);
  if (absl::IsResourceExhausted(pool.status())) {
    return Annotate(pool.status(),
                    fmt::format("no room for keys and values of {} blocks of {} tokens",
                                shape.num_blocks, shape.block_size));
  }
  INCIPIT_RETURN_IF_ERROR(pool.status());
  pool_ = *std::move(pool);
  options_.num_blocks = shape.num_blocks;
  kv_bytes_ = static_cast<size_t>(BytesPerBlock(layout)) * static_cast<size_t>(shape.num_blocks);
  return absl::OkStatus();
}

// Checks all values of `step` that a backend uses as memory indices.
void TransformerRunner::CheckStep(const Step& step) const {
  const auto num_tokens = std::ssize(step.tokens);
  INCIPIT_CHECK(num_tokens <= options_.step_tokens_max);
  INCIPIT_CHECK(std::ssize(step.samples) <= options_.samples_max);
  INCIPIT_CHECK(std::ssize(step.scores) <= options_.step_tokens_max);
  INCIPIT_CHECK(step.positions.size() == step.tokens.size());
  for (const TokenId token : step.tokens) {
    // If the previous step samples a token on the device, its id is not known here. `token` is then
    // negative and refers to this sample.
    INCIPIT_CHECK(token < model_.config.vocab_size);
  }
  for (const int32_t position : step.positions) {
    INCIPIT_CHECK(position >= 0 && position < options_.max_model_len);
  }
  const auto is_in_pool = [&](BlockId block) {
    const auto index = static_cast<int32_t>(block);
    return index >= 0 && index < options_.num_blocks;
  };
  INCIPIT_CHECK(std::ranges::all_of(step.blocks, is_in_pool));
  for (const BlockWrite& write : step.writes) {
    INCIPIT_CHECK(is_in_pool(write.to) && write.data != nullptr);
  }
  for (const BlockCopy& copy : step.copies) {
    INCIPIT_CHECK(is_in_pool(copy.from) && is_in_pool(copy.to));
    INCIPIT_CHECK(copy.num_tokens >= 0 && copy.num_tokens <= options_.block_size);
  }
  CheckRanges(step, step.sample_begin, step.samples);
  CheckRanges(step, step.score_begin, step.scores);
  for (const StepScore& score : step.scores) {
    INCIPIT_CHECK(score.target >= 0 && score.target < model_.config.vocab_size);
  }
}

Activations TransformerRunner::ActivationsOf(int32_t num_tokens) const {
  const ModelConfig& config = model_.config;
  const int64_t query_size = int64_t{config.num_heads} * config.head_dim;
  const auto view = [&](const Buffer& buffer, int64_t cols, DType dtype) {
    return TensorView{.data = buffer.data(), .dtype = dtype, .rows = num_tokens, .cols = cols};
  };
  return {.hidden = view(*hidden_, config.hidden_size, hidden_dtype_),
          .query = view(*query_, query_size, activation_dtype_),
          .attention = view(*attention_, query_size, activation_dtype_),
          .mlp = view(*mlp_, config.intermediate_size, activation_dtype_)};
}

void TransformerRunner::Prepare(const Step& step, Slot& slot) const {
  slot.logits.Build(step);
  slot.result.tokens.assign(step.samples.size(), -1);
  slot.result.status.assign(step.samples.size(), RowStatus::kOk);
  slot.result.score_status.assign(step.scores.size(), RowStatus::kOk);
  slot.result.logprobs.Clear();
  slot.result.prompt_logprobs.Clear();
}

TensorView TransformerRunner::LogitsOf(const LogitsPlan::Chunk& chunk) const {
  return {.data = logits_->data(),
          .dtype = DType::kF32,
          .rows = chunk.row_end - chunk.row_begin,
          .cols = model_.config.vocab_size};
}

SampleArgs TransformerRunner::SamplesOf(const Step& step, const LogitsPlan::Chunk& chunk,
                                        Slot& slot) const {
  const auto begin = static_cast<size_t>(chunk.sample_begin);
  const auto count = static_cast<size_t>(chunk.sample_end - chunk.sample_begin);
  return {.logits = LogitsOf(chunk),
          .samples = step.samples.subspan(begin, count),
          .logits_rows = slot.logits.sample_rows().subspan(begin, count),
          .tokens = std::span(slot.result.tokens).subspan(begin, count),
          .status = std::span(slot.result.status).subspan(begin, count),
          .logprobs = &slot.result.logprobs,
          .is_latest = true};
}

ScoreArgs TransformerRunner::ScoresOf(const Step& step, const LogitsPlan::Chunk& chunk,
                                      Slot& slot) const {
  const auto begin = static_cast<size_t>(chunk.score_begin);
  const auto count = static_cast<size_t>(chunk.score_end - chunk.score_begin);
  return {.logits = LogitsOf(chunk),
          .scores = step.scores.subspan(begin, count),
          .logits_rows = slot.logits.score_rows().subspan(begin, count),
          .status = std::span(slot.result.score_status).subspan(begin, count),
          .logprobs = &slot.result.prompt_logprobs};
}

bool TransformerRunner::SamplesAtOnce(const Step& step, const Slot& slot) {
  return step.scores.empty() && slot.logits.chunks().size() == 1;
}

void TransformerRunner::RunAndSample(const Activations& activations,
                                     const SampleArgs& samples) const {
  transformer_->Forward(activations, *pool_);
  transformer_->Logits(activations, 0, samples.logits);
  backend_.Sample(samples);
}

absl::Status TransformerRunner::RecordSteps() {
  Slot& slot = slots_.front();
  const SamplingParams params;
  const TokenId token = 0;
  const BlockId block{0};
  const int32_t position = 0, begin[] = {0, 1}, no_scores[] = {0, 0};
  const StepSample sample = {.params = &params};
  const Step step = {.tokens = {&token, 1},
                     .positions = {&position, 1},
                     .token_begin = begin,
                     .block_begin = begin,
                     .blocks = {&block, 1},
                     .sample_begin = begin,
                     .samples = {&sample, 1},
                     .score_begin = no_scores};
  Prepare(step, slot);
  slot.samples = SamplesOf(step, slot.logits.chunks().front(), slot);
  const Activations activations = ActivationsOf(1);
  return backend_.RecordSteps(this, options_.step_tokens_max, step,
                              {.rows = slot.logits.rows(), .samples = &slot.samples},
                              [&] { RunAndSample(activations, slot.samples); });
}

void TransformerRunner::ComputeLogits(const Step& step, const Activations& activations,
                                      Slot& slot) {
  for (const LogitsPlan::Chunk& chunk : slot.logits.chunks()) {
    transformer_->Logits(activations, chunk.row_begin, LogitsOf(chunk));
    if (chunk.sample_begin < chunk.sample_end) backend_.Sample(SamplesOf(step, chunk, slot));
    if (chunk.score_begin < chunk.score_end) backend_.Score(ScoresOf(step, chunk, slot));
  }
}

// Waits for the writes and copies of the step in flight, if the step has no tokens. The backend
// counts only steps with tokens: Synchronize waits for the oldest of these. So a step without
// tokens must end before the next step is uploaded.
void TransformerRunner::EndStepWithoutTokens() {
  if (num_in_flight_ == 0 || slots_[oldest_].has_tokens) return;
  slots_[oldest_].status = backend_.Synchronize();
}

absl::Status TransformerRunner::Launch(const Step& step) {
  INCIPIT_CHECK(num_in_flight_ < slots_.size());
  CheckStep(step);
  EndStepWithoutTokens();
  Slot& slot = slots_[(oldest_ + num_in_flight_) % slots_.size()];
  ++num_in_flight_;
  Prepare(step, slot);
  slot.has_tokens = !step.tokens.empty();
  slot.status.reset();
  if (step.tokens.empty()) {
    backend_.WriteBlocks(*pool_, step.writes);
    backend_.CopyBlocks(*pool_, step.copies);
    return absl::OkStatus();
  }
  const bool samples_at_once = SamplesAtOnce(step, slot);
  if (samples_at_once) slot.samples = SamplesOf(step, slot.logits.chunks().front(), slot);
  backend_.Upload(
      step, {.rows = slot.logits.rows(), .samples = samples_at_once ? &slot.samples : nullptr});
  backend_.WriteBlocks(*pool_, step.writes);
  backend_.CopyBlocks(*pool_, step.copies);
  const Activations activations = ActivationsOf(static_cast<int32_t>(step.tokens.size()));
  if (samples_at_once) {
    backend_.RunStep(this, [&] { RunAndSample(activations, slot.samples); });
    return absl::OkStatus();
  }
  // Compute a rare kind of step without a recorded CUDA graph: a step that needs log probabilities
  // of prompt tokens, or more logits than fit into memory.
  transformer_->Forward(activations, *pool_);
  ComputeLogits(step, activations, slot);
  return absl::OkStatus();
}

absl::Status TransformerRunner::ReadBlocks(std::span<const BlockId> blocks,
                                           std::span<std::byte> to) {
  return backend_.ReadBlocks(*pool_, blocks, to);
}

absl::Status TransformerRunner::Wait(StepResult& result) {
  INCIPIT_CHECK(num_in_flight_ > 0);
  Slot& slot = slots_[oldest_];
  const absl::Status status = slot.status ? *slot.status : backend_.Synchronize();
  std::swap(result, slot.result);
  oldest_ = (oldest_ + 1) % slots_.size();
  --num_in_flight_;
  return status;
}

}  // namespace incipit
