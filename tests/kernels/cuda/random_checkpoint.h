// A Llama checkpoint with random bf16 weights and a head size that the fast attention kernels of
// the CUDA backend support.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "kernels/numeric.h"
#include "tests/conformance/support.h"
#include "tests/transformer/safetensors_builder.h"

namespace incipit {

inline constexpr int32_t kRandomVocab = 96;

// Writes a model with two layers. Heads have 64 or 128 dimensions, and two query heads share one
// key head and one value head.
class RandomCheckpoint {
 public:
  explicit RandomCheckpoint(int64_t head_dim = 64, int64_t num_kv_heads = 1) {
    WriteFile(folder_.path() / "config.json",
              fmt::format(R"({{
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama", "hidden_act": "silu", "hidden_size": 64, "intermediate_size": 64,
        "num_hidden_layers": 2, "num_attention_heads": {}, "num_key_value_heads": {},
        "head_dim": {},
        "vocab_size": 96, "max_position_embeddings": 256, "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0, "tie_word_embeddings": false, "bos_token_id": 1, "eos_token_id": 2,
        "dtype": "bfloat16"}})",
                          2 * num_kv_heads, num_kv_heads, head_dim));
    const int64_t kv_width = num_kv_heads * head_dim, q_width = 2 * kv_width;
    AddMatrix("model.embed_tokens.weight", kRandomVocab, kHidden, 1);
    for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
      AddNorm(layer + "input_layernorm.weight");
      AddMatrix(layer + "self_attn.q_proj.weight", q_width, kHidden, 0.5F);
      AddMatrix(layer + "self_attn.k_proj.weight", kv_width, kHidden, 0.5F);
      AddMatrix(layer + "self_attn.v_proj.weight", kv_width, kHidden, 0.25F);
      AddMatrix(layer + "self_attn.o_proj.weight", kHidden, q_width, 0.25F);
      AddNorm(layer + "post_attention_layernorm.weight");
      AddMatrix(layer + "mlp.gate_proj.weight", kHidden, kHidden, 0.25F);
      AddMatrix(layer + "mlp.up_proj.weight", kHidden, kHidden, 0.25F);
      AddMatrix(layer + "mlp.down_proj.weight", kHidden, kHidden, 0.25F);
    }
    AddNorm("model.norm.weight");
    AddMatrix("lm_head.weight", kRandomVocab, kHidden, 0.5F);
    WriteFile(folder_.path() / "model.safetensors", SafetensorsFile(tensors_));
  }

  std::string path() const { return folder_.path().string(); }

 private:
  static constexpr int64_t kHidden = 64;

  void AddMatrix(std::string name, int64_t rows, int64_t columns, float most) {
    Add(std::move(name), {rows, columns}, -most, most);
  }
  void AddNorm(std::string name) { Add(std::move(name), {kHidden}, 0.5F, 1.5F); }
  void Add(std::string name, std::vector<int64_t> shape, float low, float high) {
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    std::string data(static_cast<size_t>(2 * count), ' ');
    for (size_t i = 0; i < data.size(); i += 2) {
      const uint16_t value = NarrowBF16(numbers_.Uniform(low, high));
      std::memcpy(&data[i], &value, sizeof(value));
    }
    tensors_.push_back({std::move(name), std::move(shape), "BF16", 2, std::move(data)});
  }

  TemporaryFolder folder_;
  RandomNumbers numbers_{5};
  std::vector<BuiltTensor> tensors_;
};

}  // namespace incipit
