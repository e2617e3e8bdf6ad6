// The forward pass of a decoder-only transformer (Vaswani et al., 2017; Touvron et al., 2023): RMS
// norms, grouped-query attention with rotary positions, and a gated MLP.
#pragma once

#include <cstdint>

#include "kernels/backend.h"
#include "transformer/config.h"
#include "transformer/weights.h"

namespace incipit {

// The intermediate values of a step with num_tokens token rows. BackendLimits defines the types.
struct Activations {
  TensorView hidden;     // shape [num_tokens, hidden_size], the residual stream
  TensorView query;      // shape [num_tokens, num_heads * head_dim]
  TensorView attention;  // shape [num_tokens, num_heads * head_dim]
  TensorView mlp;        // shape [num_tokens, intermediate_size]
};

// Enqueues the forward pass of one step at a time on a backend. All constructor arguments must
// outlive the transformer.
class Transformer {
 public:
  // `rope`: a table from RopeTable with at least as many positions as any sequence will have.
  Transformer(const ModelConfig& config, const ModelWeights& weights, const Buffer& rope,
              Backend& backend)
      : config_(config), weights_(weights), rope_(rope), backend_(backend) {}

  // Runs all layers for the uploaded step. The result is in `activations.hidden`.
  void Forward(const Activations& activations, KvPool& pool) const;

  // Computes logits, f32 [rows, vocab], for the rows [begin, begin + logits.rows) of
  // StepLogits::rows.
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
