#include "transformer/transformer.h"

#include <cmath>

namespace incipit {

NormArgs Transformer::Norm(const Buffer& weight) const {
  return {.weight = &weight, .epsilon = config_.rms_norm_epsilon};
}

void Transformer::Forward(const Activations& activations, KvPool& pool) const {
  backend_.Embed({.table = weights_.embedding.get(), .hidden = activations.hidden});
  for (int32_t layer = 0; layer < config_.num_layers; ++layer) {
    Attend(layer, activations, pool);
    FeedForward(layer, activations);
  }
}

void Transformer::Attend(int32_t layer, const Activations& activations, KvPool& pool) const {
  const auto index = static_cast<size_t>(layer);
  const LayerWeights& weights = weights_.layers[index];
  backend_.QkvRopeAppend({.hidden = activations.hidden,
                          .norm = Norm(*weights.attention_norm),
                          .qkv = weights.qkv.get(),
                          .bias = weights.qkv_bias.get(),
                          .query_norm = weights.query_norm.get(),
                          .key_norm = weights.key_norm.get(),
                          .head_norm_epsilon = config_.rms_norm_epsilon,
                          .rope = &rope_,
                          .num_heads = config_.num_heads,
                          .num_kv_heads = config_.num_kv_heads,
                          .head_dim = config_.head_dim,
                          .pool = &pool,
                          .layer = layer,
                          .query = activations.query});
  backend_.Attention({.query = activations.query,
                      .pool = &pool,
                      .layer = layer,
                      .num_heads = config_.num_heads,
                      .scale = 1 / std::sqrt(static_cast<float>(config_.head_dim)),
                      .window = config_.layer_windows[index],
                      .out = activations.attention});
  backend_.ProjectAdd({.x = activations.attention,
                       .weight = weights.output.get(),
                       .bias = weights.output_bias.get(),
                       .hidden = activations.hidden,
                       .next_norm = weights.mlp_norm.get()});
}

void Transformer::FeedForward(int32_t layer, const Activations& activations) const {
  const auto index = static_cast<size_t>(layer);
  const LayerWeights& weights = weights_.layers[index];
  const bool is_last = index + 1 == weights_.layers.size();
  backend_.GateUpSilu({.hidden = activations.hidden,
                       .norm = Norm(*weights.mlp_norm),
                       .gate_up = weights.gate_up.get(),
                       .bias = weights.gate_up_bias.get(),
                       .out = activations.mlp});
  backend_.ProjectAdd(
      {.x = activations.mlp,
       .weight = weights.down.get(),
       .bias = weights.down_bias.get(),
       .hidden = activations.hidden,
       .next_norm = is_last ? nullptr : weights_.layers[index + 1].attention_norm.get()});
}

void Transformer::Logits(const Activations& activations, int32_t begin,
                         const TensorView& logits) const {
  backend_.Logits({.hidden = activations.hidden,
                   .norm = Norm(*weights_.final_norm),
                   .head = weights_.head.get(),
                   .begin = begin,
                   .count = static_cast<int32_t>(logits.rows),
                   .logits = logits});
}

}  // namespace incipit
