// Computes the forward pass of a decoder-only transformer (Vaswani et al., 2017; Touvron et al.,
// 2023). The layers use RMS norms, grouped-query attention with rotary position embedding, and a
// gated MLP.
#pragma once

#include <cstdint>

#include "kernels/backend.h"
#include "transformer/config.h"
#include "transformer/weights.h"

namespace incipit {

// Buffers for the intermediate values of one forward pass over a batch of num_tokens tokens.
// BackendLimits defines the element types.
struct Activations {
  // Hidden states: input and output of each layer. Shape [num_tokens, hidden_size].
  TensorView hidden;
  TensorView query;      // queries; shape [num_tokens, num_heads * head_dim]
  TensorView attention;  // output of the attention; shape [num_tokens, num_heads * head_dim]
  TensorView mlp;        // input of the MLP matrix `down`; shape [num_tokens, intermediate_size]
};

// Enqueues the forward pass of a model on a backend.
class Transformer {
 public:
  // Creates a transformer. `rope` is a table from RopeTable, with one row for each position of the
  // longest sequence. REQUIRES: all arguments outlive the transformer.
  Transformer(const ModelConfig& config, const ModelWeights& weights, const Buffer& rope,
              Backend& backend)
      : config_(config), weights_(weights), rope_(rope), backend_(backend) {}

  // Enqueues all layers for the batch of tokens that was passed to the last call of
  // Backend::Upload. Writes the output of the last layer to `activations.hidden`.
  void Forward(const Activations& activations, KvPool& pool) const;

  // Enqueues the computation of logits for n tokens of the batch. The elements [begin, begin + n)
  // of StepLogits::rows are the indices of these tokens. `logits` has the shape [n, vocab] and the
  // type f32.
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
