// An attention layer with random weights on a backend. Tests append keys and values to the layer
// and compute attention over them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/backend.h"
#include "tests/conformance/support.h"

namespace incipit {

inline constexpr int32_t kAttentionHiddenSize = 16;

struct AttentionShape {
  int32_t num_heads = 4, num_kv_heads = 2, head_dim = 16;
  int32_t block_size = 16, num_blocks = 12, window = 0, num_layers = 1;
  DType kv_dtype = DType::kF32;
  bool qk_norm = false, bias = false;
  int32_t positions_max = 600;
  // The value of WeightUse::rotated_head_dim. If absent, qk_norm and head_dim determine that value.
  std::optional<int32_t> rotated_head_dim = {};
};

// The weights of an attention layer and the inputs of its tokens, equal for every backend. The
// input of a token depends only on the position of the token and the number of its sequence.
class AttentionModel {
 public:
  explicit AttentionModel(const AttentionShape& shape)
      : shape_(shape),
        numbers_(99),
        query_(DType::kBF16, int64_t{shape.num_heads} * shape.head_dim, kAttentionHiddenSize),
        key_(DType::kBF16, int64_t{shape.num_kv_heads} * shape.head_dim, kAttentionHiddenSize),
        value_(DType::kBF16, int64_t{shape.num_kv_heads} * shape.head_dim, kAttentionHiddenSize),
        rope_(DType::kF32, shape.positions_max, shape.head_dim),
        norm_(Tensor::Random(DType::kF32, 1, kAttentionHiddenSize, numbers_)),
        head_norm_(Tensor::Random(DType::kF32, 1, shape.head_dim, numbers_)),
        bias_(Tensor::Random(DType::kF32, 1, width(), numbers_)) {
    for (Tensor* part : {&query_, &key_, &value_}) {
      *part = Tensor::Random(DType::kBF16, part->rows(), part->cols(), numbers_, 0.5f);
    }
    for (int32_t p = 0; p < shape.positions_max; ++p) {
      for (int32_t i = 0; i < shape.head_dim / 2; ++i) {
        const double angle = p * std::pow(1e4, -2.0 * i / shape.head_dim);
        rope_.Set(p, i, static_cast<float>(std::cos(angle)));
        rope_.Set(p, shape.head_dim / 2 + i, static_cast<float>(std::sin(angle)));
      }
    }
  }

  int64_t width() const {
    return int64_t{shape_.num_heads + 2 * shape_.num_kv_heads} * shape_.head_dim;
  }
  int64_t query_size() const { return int64_t{shape_.num_heads} * shape_.head_dim; }

  AttentionShape shape_;
  RandomNumbers numbers_;
  Tensor query_, key_, value_, rope_, norm_, head_norm_, bias_;
};

struct Chunk {
  int32_t sequence = 0, first_position = 0, num_tokens = 0;
  std::vector<BlockId> blocks = {};
};

enum class Leftovers : uint8_t { kZero, kNaN };

// A backend with the weights of the layer and a KV pool. `leftovers` selects the initial contents
// of the pool's slots: zeros or NaN.
class AttentionLayer {
 public:
  AttentionLayer(Backend& backend, const AttentionModel& model,
                 Leftovers leftovers = Leftovers::kNaN)
      : backend_(backend), model_(model) {
    const int32_t rotated = model.shape_.qk_norm ? 0 : model.shape_.head_dim;
    qkv_ = Pack(backend, {&model.query_, &model.key_, &model.value_},
                {WeightRole::kQkv, model.shape_.rotated_head_dim.value_or(rotated)});
    rope_ = StoreVector(backend, model.rope_);
    norm_ = StoreVector(backend, model.norm_);
    head_norm_ = StoreVector(backend, model.head_norm_);
    bias_ = StoreVector(backend, model.bias_);
    const AttentionShape& shape = model.shape_;
    auto pool = backend.CreateKvPool({.num_layers = shape.num_layers,
                                      .num_blocks = shape.num_blocks,
                                      .block_size = shape.block_size,
                                      .num_kv_heads = shape.num_kv_heads,
                                      .head_dim = shape.head_dim,
                                      .dtype = shape.kv_dtype});
    EXPECT_TRUE(pool.ok()) << pool.status();
    pool_ = *std::move(pool);
    if (leftovers == Leftovers::kNaN) Poison();
  }

  KvPool& pool() { return *pool_; }

  // Appends the keys and values of the chunks and computes attention. Returns the attention output
  // of every token.
  Tensor Run(const std::vector<Chunk>& chunks, int32_t layer = 0) {
    Tensor hidden = InputOf(chunks);
    return RunOn(chunks, hidden, layer);
  }
  // Appends the keys and values of the chunks without computing attention.
  void Fill(const std::vector<Chunk>& chunks) {
    Tensor hidden = InputOf(chunks);
    Append(chunks, hidden, 0);
  }

 private:
  static Tensor InputOf(const std::vector<Chunk>& chunks) {
    Tensor hidden(DType::kF32, CountTokens(chunks), kAttentionHiddenSize);
    int64_t row = 0;
    for (const Chunk& chunk : chunks) {
      for (int32_t i = 0; i < chunk.num_tokens; ++i, ++row) {
        RandomNumbers numbers(static_cast<uint64_t>(chunk.sequence) * 1000 +
                              static_cast<uint64_t>(chunk.first_position + i));
        for (float& value : hidden.Row(row)) value = numbers.Uniform(-1, 1);
      }
    }
    return hidden;
  }

  static int64_t CountTokens(const std::vector<Chunk>& chunks) {
    int64_t count = 0;
    for (const Chunk& chunk : chunks) count += chunk.num_tokens;
    return count;
  }

  // Fills the whole pool with NaN: a NaN input makes every key and value of its token NaN.
  void Poison() {
    const AttentionShape& shape = model_.shape_;
    const int32_t per_chunk = std::max(1, shape.positions_max / shape.block_size);
    for (int32_t block = 0; block < shape.num_blocks; block += per_chunk) {
      const int32_t count = std::min(per_chunk, shape.num_blocks - block);
      Chunk chunk = {.num_tokens = count * shape.block_size};
      for (int32_t i = 0; i < count; ++i) chunk.blocks.push_back(BlockId{block + i});
      Tensor hidden(DType::kF32, chunk.num_tokens, kAttentionHiddenSize);
      for (int64_t r = 0; r < hidden.rows(); ++r) {
        std::ranges::fill(hidden.Row(r), std::numeric_limits<float>::quiet_NaN());
      }
      for (int32_t layer = 0; layer < shape.num_layers; ++layer) Append({chunk}, hidden, layer);
    }
  }

  Tensor Append(const std::vector<Chunk>& chunks, Tensor& hidden, int32_t layer) {
    const AttentionShape& shape = model_.shape_;
    std::vector<SequenceStep> sequences;
    for (const Chunk& chunk : chunks) {
      sequences.push_back({.first_position = chunk.first_position,
                           .num_tokens = chunk.num_tokens,
                           .blocks = chunk.blocks});
    }
    step_ = std::make_unique<OwnedStep>(sequences);
    Tensor query(DType::kF32, hidden.rows(), model_.query_size());
    step_->UploadTo(backend_);
    backend_.QkvRopeAppend({.hidden = hidden.view(),
                            .norm = {.weight = norm_.get(), .epsilon = 1e-5f},
                            .qkv = qkv_.get(),
                            .bias = shape.bias ? bias_.get() : nullptr,
                            .query_norm = shape.qk_norm ? head_norm_.get() : nullptr,
                            .key_norm = shape.qk_norm ? head_norm_.get() : nullptr,
                            .head_norm_epsilon = 1e-6f,
                            .rope = rope_.get(),
                            .num_heads = shape.num_heads,
                            .num_kv_heads = shape.num_kv_heads,
                            .head_dim = shape.head_dim,
                            .pool = pool_.get(),
                            .layer = layer,
                            .query = query.view()});
    return query;
  }

  Tensor RunOn(const std::vector<Chunk>& chunks, Tensor& hidden, int32_t layer) {
    const AttentionShape& shape = model_.shape_;
    Tensor query = Append(chunks, hidden, layer);
    Tensor out(DType::kF32, hidden.rows(), model_.query_size());
    backend_.Attention({.query = query.view(),
                        .pool = pool_.get(),
                        .layer = layer,
                        .num_heads = shape.num_heads,
                        .scale = 1 / std::sqrt(static_cast<float>(shape.head_dim)),
                        .window = shape.window,
                        .out = out.view()});
    EXPECT_TRUE(backend_.Synchronize().ok());
    return out;
  }

  Backend& backend_;
  const AttentionModel& model_;
  std::unique_ptr<Weight> qkv_;
  std::unique_ptr<Buffer> rope_, norm_, head_norm_, bias_;
  std::unique_ptr<KvPool> pool_;
  std::unique_ptr<OwnedStep> step_;
};

// Returns the blocks for `num_tokens` tokens of sequence `sequence`, scattered over the pool.
inline std::vector<BlockId> ScatteredBlocks(const AttentionShape& shape, int32_t sequence,
                                            int32_t num_tokens) {
  std::vector<int32_t> order(shape.num_blocks);
  std::iota(order.begin(), order.end(), 0);
  RandomNumbers numbers(5);
  for (int32_t i = shape.num_blocks - 1; i > 0; --i) {
    std::swap(order[i], order[numbers.Below(i + 1)]);
  }
  std::vector<BlockId> blocks = {};
  const int32_t count = (num_tokens + shape.block_size - 1) / shape.block_size;
  for (int32_t i = 0; i < count; ++i) blocks.push_back(BlockId{order.at(sequence * count + i)});
  return blocks;
}

}  // namespace incipit
