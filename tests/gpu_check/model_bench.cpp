// Measures steps of a model of the 8B shape with random weights. The calls to the backend are those
// of TransformerRunner.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "kernels/backend.h"
#include "kernels/cuda/host/backend.h"
#include "tests/gpu_check/device_bench.h"
#include "transformer/rope.h"
#include "transformer/transformer.h"

namespace incipit::cuda {
namespace {

constexpr int32_t kPageSize = 16;
constexpr int32_t kDecodeSamples = 50, kPrefillSamples = 7;
constexpr int32_t kBatches[] = {1, 8, 16, 32, 64};

ModelConfig ConfigOf(bool smoke) {
  ModelConfig config;
  config.architecture = "LlamaForCausalLM";
  config.hidden_size = smoke ? 256 : 4096;
  config.intermediate_size = smoke ? 256 : 14336;
  config.num_layers = smoke ? 2 : 32;
  config.num_heads = smoke ? 4 : 32;
  config.num_kv_heads = smoke ? 1 : 8;
  config.head_dim = smoke ? 64 : 128;
  config.vocab_size = smoke ? 256 : 128256;
  config.max_positions = 8192;
  config.rms_norm_epsilon = 1e-5f;
  config.rope.theta = 500000;
  config.layer_windows.assign(static_cast<size_t>(config.num_layers), 0);
  return config;
}

// Returns `count` random bf16 numbers of either sign with magnitudes in [2^-7, 2^-5). Each element
// of the result contains four of the numbers.
std::vector<uint64_t> RandomNumbers(int64_t count) {
  std::vector<uint64_t> numbers(static_cast<size_t>((count + 3) / 4));
  uint64_t state = 88172645463325252;  // xorshift64 (Marsaglia, 2003)
  for (uint64_t& four : numbers) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    four = (state & 0x80FF80FF80FF80FF) | 0x3C003C003C003C00;
  }
  return numbers;
}

class ModelBench {
 public:
  ModelBench(DeviceBench& bench, std::unique_ptr<CudaBackend> backend)
      : bench_(bench),
        backend_(std::move(backend)),
        config_(ConfigOf(bench.is_smoke())),
        context_(static_cast<int32_t>(bench.Size(640, 40))),
        prompt_(static_cast<int32_t>(bench.Size(8192, 80))) {
    greedy_.temperature = 0;
  }

  absl::Status Run() {
    INCIPIT_RETURN_IF_ERROR(bench_.TimeOnHost({.name = "packing of the model"}, 1,
                                              [&] { return SecondsOf([&] { return Load(); }); }));
    INCIPIT_RETURN_IF_ERROR(Prepare());
    for (const int32_t batch : kBatches) {
      if (bench_.is_smoke() && batch > 8) break;
      INCIPIT_RETURN_IF_ERROR(Decode(batch));
    }
    INCIPIT_RETURN_IF_ERROR(Prefill(""));
    LibraryProducts& products = backend_->library_products();
    if (!products.is_there()) return absl::OkStatus();
    products.Use(LargeProducts::kLibrary);
    return Prefill(", by cuBLASLt");
  }

 private:
  // The arrays and results of a step with one sample per sequence.
  struct OneStep {
    std::vector<TokenId> tokens, sampled;
    std::vector<int32_t> positions, token_begin = {0}, block_begin = {0}, sample_begin = {0},
                                    score_begin = {0};
    std::vector<BlockId> blocks;
    std::vector<StepSample> samples;
    // For each sample: index of the row of its token, and index of the row of its logits.
    std::vector<int32_t> token_rows, logits_rows;
    std::vector<RowStatus> status;
    Logprobs logprobs;
    SampleArgs sample_args;

    Step step() const {
      return {.tokens = tokens,
              .positions = positions,
              .token_begin = token_begin,
              .block_begin = block_begin,
              .blocks = blocks,
              .sample_begin = sample_begin,
              .samples = samples,
              .score_begin = score_begin};
    }
  };

  template <class F>
  static absl::StatusOr<double> SecondsOf(const F& run) {
    const SteadyClock clock;
    const Time begin = clock.Now();
    INCIPIT_RETURN_IF_ERROR(run());
    return ToSeconds(clock.Now() - begin);
  }

  // ---- the model

  // Packs a weight. All weights are prefixes of the same random numbers.
  absl::StatusOr<std::unique_ptr<Weight>> Pack(int64_t rows, int64_t cols, WeightUse use) {
    const ConstTensorView view = {
        .data = numbers_.data(), .dtype = DType::kBF16, .rows = rows, .cols = cols};
    auto weight = backend_->PackWeight({&view, 1}, use, WeightFormat::kAsStored, {});
    if (weight.ok()) weight_bytes_ += static_cast<double>((*weight)->byte_size());
    return weight;
  }
  absl::StatusOr<std::unique_ptr<Buffer>> StoreOnes(int64_t size) {
    const std::vector<float> ones(static_cast<size_t>(size), 1);
    const ConstTensorView view = {
        .data = ones.data(), .dtype = DType::kF32, .rows = 1, .cols = size};
    return backend_->Store({&view, 1});
  }

  absl::StatusOr<LayerWeights> PackLayer() {
    const int64_t hidden = config_.hidden_size, dim = config_.head_dim;
    const int64_t query = config_.num_heads * dim;
    LayerWeights layer;
    INCIPIT_ASSIGN_OR_RETURN(layer.attention_norm, StoreOnes(hidden));
    INCIPIT_ASSIGN_OR_RETURN(layer.mlp_norm, StoreOnes(hidden));
    INCIPIT_ASSIGN_OR_RETURN(layer.qkv, Pack(query + 2 * config_.num_kv_heads * dim, hidden,
                                             {WeightRole::kQkv, config_.head_dim}));
    INCIPIT_ASSIGN_OR_RETURN(layer.output, Pack(hidden, query, WeightRole::kOutput));
    const int64_t intermediate = config_.intermediate_size;
    INCIPIT_ASSIGN_OR_RETURN(layer.gate_up, Pack(2 * intermediate, hidden, WeightRole::kGateUp));
    INCIPIT_ASSIGN_OR_RETURN(layer.down, Pack(hidden, intermediate, WeightRole::kDown));
    return layer;
  }

  absl::Status Load() {
    const int64_t hidden = config_.hidden_size;
    const int64_t largest =
        std::max({int64_t{config_.vocab_size}, int64_t{2} * config_.intermediate_size}) * hidden;
    numbers_ = RandomNumbers(largest);
    weights_.dtype = DType::kBF16;
    for (int32_t i = 0; i < config_.num_layers; ++i) {
      INCIPIT_ASSIGN_OR_RETURN(LayerWeights layer, PackLayer());
      weights_.layers.push_back(std::move(layer));
    }
    INCIPIT_ASSIGN_OR_RETURN(weights_.final_norm, StoreOnes(hidden));
    INCIPIT_ASSIGN_OR_RETURN(weights_.head, Pack(config_.vocab_size, hidden, WeightRole::kHead));
    // The embedding uses the same numbers as the head. A step reads only one row of the embedding
    // per token.
    const ConstTensorView view = {
        .data = numbers_.data(), .dtype = DType::kBF16, .rows = config_.vocab_size, .cols = hidden};
    INCIPIT_ASSIGN_OR_RETURN(
        weights_.embedding,
        backend_->PackWeight({&view, 1}, WeightRole::kEmbedding, WeightFormat::kAsStored, {}));
    return absl::OkStatus();
  }

  absl::StatusOr<TensorView> AllocateMatrix(int64_t rows, int64_t cols, DType dtype) {
    TensorView view = {.data = nullptr, .dtype = dtype, .rows = rows, .cols = cols};
    INCIPIT_ASSIGN_OR_RETURN(auto buffer, backend_->Allocate(view.byte_size()));
    view.data = buffer->data();
    buffers_.push_back(std::move(buffer));
    return view;
  }

  // Allocates memory for steps, and cache pages for `context_` positions of SequencesMax()
  // sequences.
  absl::Status Prepare() {
    const int64_t query = int64_t{config_.num_heads} * config_.head_dim;
    const DType hidden = backend_->limits().hidden_dtype;
    const DType activation = backend_->limits().activation_dtype;
    INCIPIT_ASSIGN_OR_RETURN(all_.hidden, AllocateMatrix(prompt_, config_.hidden_size, hidden));
    INCIPIT_ASSIGN_OR_RETURN(all_.query, AllocateMatrix(prompt_, query, activation));
    INCIPIT_ASSIGN_OR_RETURN(all_.attention, AllocateMatrix(prompt_, query, activation));
    INCIPIT_ASSIGN_OR_RETURN(all_.mlp,
                             AllocateMatrix(prompt_, config_.intermediate_size, activation));
    INCIPIT_ASSIGN_OR_RETURN(logits_,
                             AllocateMatrix(SequencesMax(), config_.vocab_size, DType::kF32));
    const std::vector<float> table = RopeTable(config_.rope, config_.head_dim, prompt_);
    const ConstTensorView view = {
        .data = table.data(), .dtype = DType::kF32, .rows = prompt_, .cols = config_.head_dim};
    INCIPIT_ASSIGN_OR_RETURN(rope_, backend_->Store({&view, 1}));
    const int32_t num_blocks = std::max(SequencesMax() * PagesFor(context_), PagesFor(prompt_));
    INCIPIT_ASSIGN_OR_RETURN(pool_, backend_->CreateKvPool({.num_layers = config_.num_layers,
                                                            .num_blocks = num_blocks,
                                                            .block_size = kPageSize,
                                                            .num_kv_heads = config_.num_kv_heads,
                                                            .head_dim = config_.head_dim,
                                                            .dtype = DType::kBF16}));
    INCIPIT_RETURN_IF_ERROR(backend_->Reserve({.tokens_max = prompt_,
                                               .sequences_max = SequencesMax(),
                                               .blocks_max = num_blocks,
                                               .samples_max = SequencesMax()}));
    transformer_.emplace(config_, weights_, *rope_, *backend_);
    OneStep first = PromptStep(context_);
    INCIPIT_RETURN_IF_ERROR(Compute(first));
    // Copies the keys and values of the first sequence for each other sequence, so that each
    // sequence reads its own memory.
    for (int32_t s = 1; s < SequencesMax(); ++s) {
      for (int32_t i = 0; i < PagesFor(context_); ++i) {
        copies_.push_back({BlockId{i}, BlockId{s * PagesFor(context_) + i}, kPageSize});
      }
    }
    OneStep again = DecodeStep(1);
    INCIPIT_RETURN_IF_ERROR(Compute(again));
    copies_.clear();
    return absl::OkStatus();
  }

  // ---- steps of the model

  int32_t SequencesMax() const { return bench_.is_smoke() ? 8 : std::ranges::max(kBatches); }
  static int32_t PagesFor(int32_t positions) { return (positions + kPageSize - 1) / kPageSize; }
  TokenId TokenAt(int32_t sequence, int32_t position) const {
    return static_cast<TokenId>((int64_t{31} * sequence + 17 * position + 5) % config_.vocab_size);
  }

  void AddSequence(OneStep& step, int32_t sequence, int32_t begin, int32_t end) const {
    for (int32_t position = begin; position < end; ++position) {
      step.tokens.push_back(TokenAt(sequence, position));
      step.positions.push_back(position);
    }
    for (int32_t i = 0; i < PagesFor(end); ++i) {
      step.blocks.push_back(BlockId{sequence * PagesFor(context_) + i});
    }
    step.token_begin.push_back(static_cast<int32_t>(step.tokens.size()));
    step.block_begin.push_back(static_cast<int32_t>(step.blocks.size()));
    const auto row = static_cast<int32_t>(step.tokens.size()) - 1;
    step.logits_rows.push_back(static_cast<int32_t>(step.samples.size()));
    step.token_rows.push_back(row);
    step.samples.push_back({.row = row, .params = &greedy_, .position = end});
    step.sample_begin.push_back(static_cast<int32_t>(step.samples.size()));
    step.score_begin.push_back(0);
    step.sampled.push_back(-1);
    step.status.push_back(RowStatus::kOk);
  }
  OneStep PromptStep(int32_t length) const {
    OneStep step;
    AddSequence(step, 0, 0, length);
    return step;
  }
  // Returns a step with one token per sequence. The token attends to `context_` positions, its own
  // included.
  OneStep DecodeStep(int32_t batch) const {
    OneStep step;
    for (int32_t s = 0; s < batch; ++s) AddSequence(step, s, context_ - 1, context_);
    return step;
  }

  // Enqueues a step with the same calls as TransformerRunner.
  void Enqueue(OneStep& step) {
    TensorView logits = logits_;
    logits.rows = std::ssize(step.samples);
    step.sample_args = {.logits = logits,
                        .samples = step.samples,
                        .logits_rows = step.logits_rows,
                        .tokens = step.sampled,
                        .status = step.status,
                        .logprobs = &step.logprobs,
                        .is_latest = true};
    backend_->Upload(step.step(), {.rows = step.token_rows, .samples = &step.sample_args});
    backend_->CopyBlocks(*pool_, copies_);
    Activations part = all_;
    for (TensorView* view : {&part.hidden, &part.query, &part.attention, &part.mlp}) {
      view->rows = std::ssize(step.tokens);
    }
    backend_->RunStep(this, [&] {
      transformer_->Forward(part, *pool_);
      transformer_->Logits(part, 0, step.sample_args.logits);
      backend_->Sample(step.sample_args);
    });
  }
  absl::Status Finish(const OneStep& step) {
    INCIPIT_RETURN_IF_ERROR(backend_->Synchronize());
    for (const RowStatus status : step.status) {
      if (status != RowStatus::kOk) return Internal("a step computed logits that are not finite");
    }
    return absl::OkStatus();
  }
  absl::Status Compute(OneStep& step) {
    Enqueue(step);
    return Finish(step);
  }

  // ---- measurements

  absl::Status Decode(int32_t batch) {
    const double kv_bytes =
        2.0 * 2 * config_.num_layers * config_.num_kv_heads * config_.head_dim * batch * context_;
    Work work = {.name = fmt::format("decode step, {} x {}", batch, context_),
                 .bytes = weight_bytes_ + kv_bytes,
                 .flops = weight_bytes_ * batch};
    std::array<OneStep, 2> steps = {DecodeStep(batch), DecodeStep(batch)};
    // The second computation of the step records a graph, so the step is computed three times
    // before the measurement.
    for (int32_t i = 0; i < 3; ++i) INCIPIT_RETURN_IF_ERROR(Compute(steps[0]));
    INCIPIT_RETURN_IF_ERROR(bench_.TimeOnHost(
        work, kDecodeSamples, [&] { return SecondsOf([&] { return Compute(steps[0]); }); }));
    if (steps[0].sampled.front() < 0) return Internal("no token was sampled");
    // The second measurement has two steps in flight, like an engine that plans a step while the
    // previous step runs.
    work.name += ", two on their way";
    size_t oldest = 0;
    Enqueue(steps[oldest]);
    const absl::Status status = bench_.TimeOnHost(work, kDecodeSamples, [&] {
      return SecondsOf([&] {
        Enqueue(steps[1 - oldest]);
        const size_t finished = std::exchange(oldest, 1 - oldest);
        return Finish(steps[finished]);
      });
    });
    const absl::Status rest = Finish(steps[oldest]);
    return status.ok() ? rest : status;
  }

  absl::Status Prefill(std::string_view whose) {
    const double pairs = static_cast<double>(prompt_) * (prompt_ + 1) / 2;
    const double head = 2.0 * config_.vocab_size * config_.hidden_size;
    const Work work = {
        .name = fmt::format("prefill of {}{}", prompt_, whose),
        .bytes = 0,
        .flops = (weight_bytes_ - head) * prompt_ + head +
                 pairs * 4 * config_.num_heads * config_.head_dim * config_.num_layers};
    OneStep step = PromptStep(prompt_);
    INCIPIT_RETURN_IF_ERROR(Compute(step));
    return bench_.TimeOnHost(work, kPrefillSamples,
                             [&] { return SecondsOf([&] { return Compute(step); }); });
  }

  DeviceBench& bench_;
  std::unique_ptr<CudaBackend> backend_;
  const ModelConfig config_;
  const int32_t context_, prompt_;
  SamplingParams greedy_;
  std::vector<uint64_t> numbers_;
  // Bytes of all weights except the input embedding. Each parameter takes two bytes.
  double weight_bytes_ = 0;
  ModelWeights weights_;
  std::unique_ptr<Buffer> rope_;
  std::unique_ptr<KvPool> pool_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  Activations all_;
  TensorView logits_;
  std::optional<Transformer> transformer_;
  std::vector<BlockCopy> copies_;
};

}  // namespace

absl::Status MeasureModel(DeviceBench& bench) {
  INCIPIT_ASSIGN_OR_RETURN(auto backend,
                           CudaBackend::Create({.large_products = LargeProducts::kLibrary,
                                                .large_rows_min = bench.is_smoke() ? 64 : 1024}));
  backend->library_products().Use(LargeProducts::kOwn);
  return ModelBench(bench, std::move(backend)).Run();
}

}  // namespace incipit::cuda
