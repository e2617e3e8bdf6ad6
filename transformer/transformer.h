// The forward pass of the decoder-only transformer (Vaswani et al., 2017, as Touvron et al., 2023,
// arrange it): RMS norms, grouped-query attention with rotary positions, gated MLP.
#pragma once

#include <cstdint>

#include "kernels/backend.h"
#include "transformer/config.h"
#include "transformer/weights.h"

namespace incipit {

// Where a step of num_tokens rows keeps its intermediate values; dtype: BackendLimits'.
struct Activations {
  TensorView hidden;     // [num_tokens, hidden]: the residual stream
  TensorView query;      // [num_tokens, num_heads * head_dim]
  TensorView attention;  // [num_tokens, num_heads * head_dim]
  TensorView mlp;        // [num_tokens, intermediate]
};

// Borrows all that it is made of. Enqueues on the backend; one step at a time.
class Transformer {
 public:
  // `rope`: see RopeTable; of as many positions as will be asked for.
  Transformer(const ModelConfig& config, const ModelWeights& weights, const Buffer& rope,
              Backend& backend)
      : config_(config), weights_(weights), rope_(rope), backend_(backend) {}

  // Runs every layer over the uploaded step; leaves its result in `activations.hidden`.
  void Forward(const Activations& activations, KvPool& pool) const;

  // Logits of rows [begin, begin + logits.rows) of the step's logits_rows; f32 [rows, vocab].
  void Logits(const Activations& activations, int32_t begin, const TensorView& logits) const;

 private:
  void Attend(int32_t layer, const Activations& activations, KvPool& pool) const;
  void FeedForward(int32_t layer, const Activations& activations) const;
  NormArgs Norm(const Buffer& weight) const;

  const ModelConfig& config_;
  const ModelWeights& weights_;
  const Buffer& rope_;
  Backend& backend_;
};

}  // namespace incipit
