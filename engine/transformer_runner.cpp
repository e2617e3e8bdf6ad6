#include "engine/transformer_runner.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "kvcache/kv_layout.h"
#include "transformer/rope.h"

namespace incipit {
namespace {

// Of options that size memory; far above use, so that products fit 64 bits.
constexpr int32_t kStepTokensLimit = 1 << 20;
constexpr int32_t kDrawsLimit = 1 << 20;
// Blocks of all sequences of a step, for which a backend makes room at the start.
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
    return Annotate(status, fmt::format("no room for steps of {} tokens", options.step_tokens_max));
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
  INCIPIT_RETURN_IF_ERROR(CheckRange("draws_max", options_.draws_max, 1, kDrawsLimit));
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
    slot.logits_rows.reserve(static_cast<size_t>(options_.step_tokens_max));
    slot.score_rows.reserve(static_cast<size_t>(options_.step_tokens_max));
    slot.sample_rows.reserve(static_cast<size_t>(options_.draws_max));
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
                           .draws_max = options_.draws_max,
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
          "no room for keys and values: a block of {} tokens takes {} bytes, "
          "and {} of the {} that are free may be used: {} are missing",
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

// What indexes memory is checked here once, whatever the backend checks.
void TransformerRunner::CheckBatch(const StepBatch& batch) const {
  const auto num_tokens = std::ssize(batch.tokens);
  INCIPIT_CHECK(num_tokens <= options_.step_tokens_max);
  INCIPIT_CHECK(std::ssize(batch.draws) <= options_.draws_max);
  INCIPIT_CHECK(std::ssize(batch.scores) <= options_.step_tokens_max);
  INCIPIT_CHECK(batch.positions.size() == batch.tokens.size());
  for (const TokenId token : batch.tokens) {
    INCIPIT_CHECK(token < model_.config.vocab_size);  // below 0: the backend counts draws
  }
  for (const int32_t position : batch.positions) {
    INCIPIT_CHECK(position >= 0 && position < options_.max_model_len);
  }
  const auto is_in_pool = [&](BlockId block) {
    const auto index = static_cast<int32_t>(block);
    return index >= 0 && index < options_.num_blocks;
  };
  INCIPIT_CHECK(std::ranges::all_of(batch.blocks, is_in_pool));
  for (const BlockCopy& copy : batch.copies) {
    INCIPIT_CHECK(is_in_pool(copy.from) && is_in_pool(copy.to));
    INCIPIT_CHECK(copy.num_tokens >= 0 && copy.num_tokens <= options_.block_size);
  }
  int32_t previous = 0;
  for (const Draw& draw : batch.draws) {
    INCIPIT_CHECK(draw.row >= previous && draw.row < num_tokens);
    previous = draw.row;
  }
  previous = 0;
  for (const PromptScore& score : batch.scores) {
    INCIPIT_CHECK(score.row >= previous && score.row < num_tokens);
    INCIPIT_CHECK(score.target >= 0 && score.target < model_.config.vocab_size);
    previous = score.row;
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

// The rows that draws and scores ask for, merged; both come in ascending order. A draw's and a
// score's row of logits is its place in its chunk.
void TransformerRunner::FillRows(const StepBatch& batch, Slot& slot) const {
  slot.logits_rows.clear();
  slot.sample_rows.clear();
  slot.score_rows.clear();
  size_t draw = 0, score = 0;
  while (draw < batch.draws.size() || score < batch.scores.size()) {
    const bool is_draw =
        score == batch.scores.size() ||
        (draw < batch.draws.size() && batch.draws[draw].row <= batch.scores[score].row);
    const int32_t row = is_draw ? batch.draws[draw].row : batch.scores[score].row;
    if (slot.logits_rows.empty() || slot.logits_rows.back() != row) slot.logits_rows.push_back(row);
    const auto place = static_cast<int32_t>(slot.logits_rows.size() - 1) % logits_rows_max_;
    if (is_draw) {
      const Draw& from = batch.draws[draw++];
      slot.sample_rows.push_back({.logits_row = place,
                                  .params = from.params,
                                  .choice = from.choice,
                                  .position = from.position,
                                  .counts = from.counts,
                                  .banned = from.banned});
    } else {
      const PromptScore& from = batch.scores[score++];
      slot.score_rows.push_back(
          {.logits_row = place, .target = from.target, .num_top = from.num_top});
    }
  }
  slot.result.tokens.assign(batch.draws.size(), -1);
  slot.result.status.assign(batch.draws.size(), RowStatus::kOk);
  slot.result.score_status.assign(batch.scores.size(), RowStatus::kOk);
  slot.result.logprobs.Clear();
  slot.result.prompt_logprobs.Clear();
}

TensorView TransformerRunner::LogitsOf(int32_t count) const {
  return {.data = logits_->data(),
          .dtype = DType::kF32,
          .rows = count,
          .cols = model_.config.vocab_size};
}

bool TransformerRunner::DrawsAtOnce(const Slot& slot) const {
  return !slot.sample_rows.empty() && slot.score_rows.empty() &&
         std::ssize(slot.logits_rows) <= logits_rows_max_;
}

SampleArgs TransformerRunner::AllDraws(Slot& slot) const {
  return {.logits = LogitsOf(static_cast<int32_t>(slot.logits_rows.size())),
          .rows = slot.sample_rows,
          .tokens = slot.result.tokens,
          .status = slot.result.status,
          .logprobs = &slot.result.logprobs,
          .is_latest = true};
}

void TransformerRunner::RunAndDraw(const Activations& activations, const SampleArgs& draws) const {
  transformer_->Forward(activations, *pool_);
  transformer_->Logits(activations, 0, draws.logits);
  backend_.Sample(draws);
}

absl::Status TransformerRunner::RecordSteps() {
  Slot& slot = slots_.front();
  const SamplingParams params;
  const TokenId tokens[] = {0};
  const BlockId blocks[] = {BlockId{0}};
  const int32_t positions[] = {0}, begin[] = {0, 1}, rows[] = {0};
  Draw draw;
  draw.params = &params;
  StepBatch batch;
  batch.draws = {&draw, 1};
  FillRows(batch, slot);
  slot.draws = AllDraws(slot);
  const Activations activations = ActivationsOf(1);
  return backend_.RecordSteps(this, options_.step_tokens_max,
                              {.tokens = tokens,
                               .positions = positions,
                               .token_begin = begin,
                               .block_begin = begin,
                               .blocks = blocks,
                               .logits_rows = rows,
                               .draws = &slot.draws},
                              [&] { RunAndDraw(activations, slot.draws); });
}

void TransformerRunner::ComputeLogits(const StepBatch& batch, const Activations& activations,
                                      Slot& slot) {
  const auto num_rows = static_cast<int32_t>(slot.logits_rows.size());
  size_t draw = 0, score = 0;
  for (int32_t begin = 0; begin < num_rows; begin += logits_rows_max_) {
    const int32_t count = std::min(logits_rows_max_, num_rows - begin);
    const int32_t last_row = slot.logits_rows[static_cast<size_t>(begin + count - 1)];
    const TensorView logits = LogitsOf(count);
    transformer_->Logits(activations, begin, logits);

    const size_t draw_begin = draw, score_begin = score;
    while (draw < batch.draws.size() && batch.draws[draw].row <= last_row) ++draw;
    while (score < batch.scores.size() && batch.scores[score].row <= last_row) ++score;
    if (const size_t n = draw - draw_begin; n > 0) {
      backend_.Sample({.logits = logits,
                       .rows = std::span(slot.sample_rows).subspan(draw_begin, n),
                       .tokens = std::span(slot.result.tokens).subspan(draw_begin, n),
                       .status = std::span(slot.result.status).subspan(draw_begin, n),
                       .logprobs = &slot.result.logprobs,
                       .is_latest = true});
    }
    if (const size_t n = score - score_begin; n > 0) {
      backend_.Score({.logits = logits,
                      .rows = std::span(slot.score_rows).subspan(score_begin, n),
                      .status = std::span(slot.result.score_status).subspan(score_begin, n),
                      .logprobs = &slot.result.prompt_logprobs});
    }
  }
}

absl::Status TransformerRunner::Launch(const StepBatch& batch) {
  INCIPIT_CHECK(num_in_flight_ < slots_.size());
  CheckBatch(batch);
  Slot& slot = slots_[(oldest_ + num_in_flight_) % slots_.size()];
  ++num_in_flight_;
  FillRows(batch, slot);
  if (batch.tokens.empty()) {
    backend_.CopyBlocks(*pool_, batch.copies);
    return absl::OkStatus();
  }
  const bool draws_at_once = DrawsAtOnce(slot);
  if (draws_at_once) slot.draws = AllDraws(slot);
  backend_.Upload({.tokens = batch.tokens,
                   .positions = batch.positions,
                   .token_begin = batch.token_begin,
                   .block_begin = batch.block_begin,
                   .blocks = batch.blocks,
                   .logits_rows = slot.logits_rows,
                   .draws = draws_at_once ? &slot.draws : nullptr});
  backend_.CopyBlocks(*pool_, batch.copies);
  const Activations activations = ActivationsOf(static_cast<int32_t>(batch.tokens.size()));
  if (draws_at_once) {
    backend_.RunStep(this, [&] { RunAndDraw(activations, slot.draws); });
    return absl::OkStatus();
  }
  // Few steps are of this kind: none has been recorded.
  transformer_->Forward(activations, *pool_);
  ComputeLogits(batch, activations, slot);
  return absl::OkStatus();
}

absl::Status TransformerRunner::Wait(StepResult& result) {
  INCIPIT_CHECK(num_in_flight_ > 0);
  const absl::Status status = backend_.Synchronize();
  std::swap(result, slots_[oldest_].result);
  oldest_ = (oldest_ + 1) % slots_.size();
  --num_in_flight_;
  return status;
}

}  // namespace incipit
