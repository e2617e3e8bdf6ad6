// Computes the forward pass of a decoder-only transformer (Vaswani et al., 2017; Touvron et al.,
// 2023): RMS norms, grouped-query attention with rotary position embedding, and a gated MLP.
#pragma once

#include <cstdint>

#include "kernels/backend.h"
#include "transformer/config.h"
#include "transformer/weights.h"

namespace incipit {

// Memory for the intermediate values of a step with num_tokens tokens. BackendLimits defines the
// element types.
struct Activations {
  TensorView hidden;     // the residual stream, of shape [num_tokens, hidden_size]
  TensorView query;      // shape [num_tokens, num_heads * head_dim]
  TensorView attention;  // shape [num_tokens, num_heads * head_dim]
  TensorView mlp;        // shape [num_tokens, intermediate_size]
};

// Enqueues the forward pass of one step at a time on a backend. All arguments of the constructor
// must outlive the transformer.
class Transformer {
 public:
  // `rope` is a table from RopeTable with at least as many positions as the longest sequence will
  // have.
  Transformer(const ModelConfig& config, const ModelWeights& weights, const Buffer& rope,
              Backend& backend)
      : config_(config), weights_(weights), rope_(rope), backend_(backend) {}

  // Runs all layers for the step that Backend::Upload has begun. The result is in
  // `activations.hidden`.
  void Forward(const Activations& activations, KvPool& pool) const;

  // Computes the logits of the rows [begin, begin + logits.rows) of StepLogits::rows. `logits` has
  // the shape [rows, vocab] and the type f32.
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
