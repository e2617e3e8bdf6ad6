#include "tests/exactness/random_model.h"

#include <cstring>

#include "base/check.h"
#include "transformer/rope.h"

namespace incipit {
namespace {

ModelConfig BaseConfig(int32_t num_heads, int32_t num_kv_heads, int32_t head_dim) {
  ModelConfig config;
  config.hidden_size = 128;
  config.intermediate_size = 280;
  config.num_layers = 2;
  config.num_heads = num_heads;
  config.num_kv_heads = num_kv_heads;
  config.head_dim = head_dim;
  config.vocab_size = 300;
  config.max_positions = 256;
  config.rms_norm_epsilon = 1e-5f;
  config.layer_windows = {0, 0};
  return config;
}

std::vector<Family> AllFamilies() {
  Family llama = {"llama", BaseConfig(8, 2, 16), 16};
  llama.config.rope.type = RopeType::kLlama3;
  llama.config.rope.factor = 8;
  llama.config.rope.original_max_positions = 64;
  Family mistral = {"mistral", BaseConfig(6, 3, 20), 8};
  mistral.config.layer_windows = {40, 40};
  Family qwen2 = {"qwen2", BaseConfig(7, 1, 18), 32};
  qwen2.config.qkv_bias = qwen2.config.tied_embeddings = true;
  Family qwen3 = {"qwen3", BaseConfig(4, 4, 48), 4};
  qwen3.config.qk_norm = true;
  qwen3.config.layer_windows = {0, 50};
  return {llama, mistral, qwen2, qwen3};
}

}  // namespace

const std::vector<Family>& Families() {
  static const std::vector<Family> families = AllFamilies();
  return families;
}

Family LongContextFamily(int32_t window, int32_t max_positions) {
  Family family = {"long", BaseConfig(3, 1, 16), 16};
  family.config.hidden_size = 32;
  family.config.intermediate_size = 40;
  family.config.num_layers = 1;
  family.config.vocab_size = 50;
  family.config.max_positions = max_positions;
  family.config.layer_windows = {window};
  return family;
}

const std::vector<WeightForm>& WeightForms() {
  static const std::vector<WeightForm> forms = {{"bf16", DType::kBF16, WeightFormat::kAsStored},
                                                {"f32", DType::kF32, WeightFormat::kAsStored},
                                                {"int8", DType::kBF16, WeightFormat::kInt8}};
  return forms;
}

RandomModel::RandomModel(const RandomModelOptions& options)
    : family_(*options.family), backend_(options.backend->create(options.num_threads)) {
  INCIPIT_CHECK(backend_->limits().activation_dtype == DType::kF32);
  Load(options.weights);
  const ModelConfig& config = family_.config;
  const std::vector<float> table = RopeTable(config.rope, config.head_dim, config.max_positions);
  const ConstTensorView view = {.data = table.data(),
                                .dtype = DType::kF32,
                                .rows = config.max_positions,
                                .cols = config.head_dim};
  auto rope = backend_->Store({&view, 1});
  INCIPIT_CHECK(rope.ok());
  rope_ = *std::move(rope);
  auto pool = backend_->CreateKvPool({.num_layers = config.num_layers,
                                      .num_blocks = options.num_blocks,
                                      .block_size = family_.block_size,
                                      .num_kv_heads = config.num_kv_heads,
                                      .head_dim = config.head_dim,
                                      .dtype = options.kv_dtype});
  INCIPIT_CHECK(pool.ok());
  pool_ = *std::move(pool);
  transformer_.emplace(config, weights_, *rope_, *backend_);
}

std::unique_ptr<Weight> RandomModel::PackMatrix(int64_t rows, int64_t cols, WeightUse use,
                                                const WeightForm& form) {
  const float scale = use.role == WeightRole::kEmbedding ? 1.0f : 0.2f;
  tensors_.push_back(
      std::make_unique<Tensor>(Tensor::Random(form.stored, rows, cols, numbers_, scale)));
  const ConstTensorView view = tensors_.back()->const_view();
  auto weight = backend_->PackWeight({&view, 1}, use, form.format, {});
  INCIPIT_CHECK(weight.ok());
  return *std::move(weight);
}

std::unique_ptr<Buffer> RandomModel::StoreRandom(int64_t size, float low, float high) {
  Tensor vector(DType::kF32, 1, size);
  for (float& value : vector.Row(0)) value = numbers_.Uniform(low, high);
  return StoreVector(*backend_, vector);
}

LayerWeights RandomModel::RandomLayer(const WeightForm& form) {
  const ModelConfig& config = family_.config;
  const int64_t hidden = config.hidden_size, query = config.num_heads * config.head_dim;
  const int64_t qkv = query + 2 * config.num_kv_heads * config.head_dim;
  LayerWeights layer;
  layer.attention_norm = StoreRandom(hidden, 0.5f, 1.5f);
  layer.mlp_norm = StoreRandom(hidden, 0.5f, 1.5f);
  const WeightUse rotated(WeightRole::kQkv, config.qk_norm ? 0 : config.head_dim);
  layer.qkv = PackMatrix(qkv, hidden, rotated, form);
  layer.output = PackMatrix(hidden, query, WeightRole::kOutput, form);
  layer.gate_up = PackMatrix(2 * config.intermediate_size, hidden, WeightRole::kGateUp, form);
  layer.down = PackMatrix(hidden, config.intermediate_size, WeightRole::kDown, form);
  if (config.qkv_bias) layer.qkv_bias = StoreRandom(qkv, -0.5f, 0.5f);
  if (config.qk_norm) {
    layer.query_norm = StoreRandom(config.head_dim, 0.5f, 1.5f);
    layer.key_norm = StoreRandom(config.head_dim, 0.5f, 1.5f);
  }
  return layer;
}

void RandomModel::Load(const WeightForm& form) {
  const ModelConfig& config = family_.config;
  weights_.dtype = form.stored;
  weights_.head = PackMatrix(config.vocab_size, config.hidden_size, WeightRole::kHead, form);
  if (config.tied_embeddings) {
    const ConstTensorView view = tensors_.front()->const_view();
    auto embedding = backend_->PackWeight({&view, 1}, WeightRole::kEmbedding, form.format, {});
    INCIPIT_CHECK(embedding.ok());
    weights_.embedding = *std::move(embedding);
  } else {
    const WeightForm as_stored = {form.name, form.stored, WeightFormat::kAsStored};
    weights_.embedding =
        PackMatrix(config.vocab_size, config.hidden_size, WeightRole::kEmbedding, as_stored);
  }
  for (int32_t i = 0; i < config.num_layers; ++i) weights_.layers.push_back(RandomLayer(form));
  weights_.final_norm = StoreRandom(config.hidden_size, 0.5f, 1.5f);
}

Tensor RandomModel::Run(const std::vector<Part>& parts, Rows rows) {
  std::vector<SequenceStep> sequences;
  std::vector<TokenId> tokens;
  std::vector<int32_t> logits_rows;
  for (const Part& part : parts) {
    sequences.push_back({.first_position = part.first_position,
                         .num_tokens = static_cast<int32_t>(part.tokens.size()),
                         .blocks = part.blocks});
    for (size_t i = 0; i < part.tokens.size(); ++i) {
      if (rows == Rows::kAll || i + 1 == part.tokens.size()) {
        logits_rows.push_back(static_cast<int32_t>(tokens.size()));
      }
      tokens.push_back(part.tokens[i]);
    }
  }
  const auto num_tokens = static_cast<int64_t>(tokens.size());
  OwnedStep step(sequences);
  step.SetTokens(std::move(tokens));
  const int64_t num_logits = std::ssize(logits_rows);
  step.SetLogitsRows(std::move(logits_rows));

  const ModelConfig& config = family_.config;
  const int64_t query_size = int64_t{config.num_heads} * config.head_dim;
  Tensor hidden(DType::kF32, num_tokens, config.hidden_size);
  Tensor query(DType::kF32, num_tokens, query_size), attention(DType::kF32, num_tokens, query_size);
  Tensor mlp(DType::kF32, num_tokens, config.intermediate_size);
  const Activations activations = {.hidden = hidden.view(),
                                   .query = query.view(),
                                   .attention = attention.view(),
                                   .mlp = mlp.view()};
  Tensor logits(DType::kF32, num_logits, config.vocab_size);
  step.UploadTo(*backend_);
  transformer_->Forward(activations, *pool_);
  transformer_->Logits(activations, 0, logits.view());
  INCIPIT_CHECK(backend_->Synchronize().ok());
  return logits;
}

std::vector<std::byte> RandomModel::Blocks(std::span<const BlockId> blocks) const {
  std::vector<std::byte> bytes(blocks.size() * Backend::BlockBytes(*pool_));
  INCIPIT_CHECK(backend_->ReadBlocks(*pool_, blocks, bytes).ok());
  return bytes;
}

std::vector<std::byte> RandomModel::KeysAndValues(std::span<const BlockId> blocks,
                                                  int32_t position) const {
  const auto& pool = static_cast<const CpuKvPool&>(*pool_);
  const KvPoolShape& shape = pool.shape();
  const size_t size = ByteSize(shape.dtype);
  const int64_t group = std::min(16, shape.block_size), slot = position % shape.block_size;
  const auto block = static_cast<int64_t>(blocks[position / shape.block_size]);
  std::vector<std::byte> bytes;
  for (int32_t layer = 0; layer < shape.num_layers; ++layer) {
    for (int32_t head = 0; head < shape.num_kv_heads; ++head) {
      const auto* data = static_cast<const std::byte*>(pool.Head(layer, head)) +
                         block * pool.block_stride() * size;
      for (int64_t d = 0; d < shape.head_dim; ++d) {
        const int64_t key = slot / group * group * shape.head_dim + d * group + slot % group;
        const int64_t value = (shape.block_size + slot) * shape.head_dim + d;
        for (const int64_t element : {key, value}) {
          bytes.insert(bytes.end(), data + element * size, data + (element + 1) * size);
        }
      }
    }
  }
  return bytes;
}

}  // namespace incipit
