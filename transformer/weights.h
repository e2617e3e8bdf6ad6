// Loads the tensors of a checkpoint as weights on a backend. Names, shapes and dtypes of the
// tensors are checked against the configuration, so the forward pass needs no checks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/enum_names.h"
#include "kernels/backend.h"
#include "transformer/checkpoint.h"
#include "transformer/config.h"

namespace incipit {

// Names of the weight formats in flags and reports. "auto" means the type of the stored weights.
inline constexpr EnumName<WeightFormat> kWeightFormatNames[] = {{WeightFormat::kAsStored, "auto"},
                                                                {WeightFormat::kInt8, "int8"}};

// The weights of one decoder layer. A pointer is null if the configuration requires no such tensor.
struct LayerWeights {
  std::unique_ptr<Buffer> attention_norm;  // shape [hidden_size], f32
  std::unique_ptr<Weight> qkv;  // shape [(num_heads + 2 * num_kv_heads) * head_dim, hidden_size]
  std::unique_ptr<Buffer> qkv_bias;              // shape [rows of qkv], f32
  std::unique_ptr<Buffer> query_norm, key_norm;  // shape [head_dim], f32
  std::unique_ptr<Weight> output;                // shape [hidden_size, num_heads * head_dim]
  std::unique_ptr<Buffer> output_bias;           // shape [hidden_size], f32
  std::unique_ptr<Buffer> mlp_norm;              // shape [hidden_size], f32
  std::unique_ptr<Weight> gate_up;               // shape [2 * intermediate_size, hidden_size]
  std::unique_ptr<Buffer> gate_up_bias;          // shape [2 * intermediate_size], f32
  std::unique_ptr<Weight> down;                  // shape [hidden_size, intermediate_size]
  std::unique_ptr<Buffer> down_bias;             // shape [hidden_size], f32
};

struct ModelWeights {
  DType dtype = DType::kF32;  // type of all tensors in the checkpoint
  WeightFormat format = WeightFormat::kAsStored;
  std::unique_ptr<Weight> embedding;  // shape [vocab, hidden_size]
  std::vector<LayerWeights> layers;
  std::unique_ptr<Buffer> final_norm;  // shape [hidden_size], f32
  // Shape [vocab, hidden_size]. If the head is tied to the embedding, the head is packed from the
  // tensor of the embedding.
  std::unique_ptr<Weight> head;
  std::vector<std::string> non_finite;  // names of all tensors that contain an infinity or a NaN
};

// Passes every tensor to the backend, which may use the tensor in place, so `checkpoint` must
// outlive the result. Returns INVALID_ARGUMENT if a tensor is missing or unknown, or if its shape
// or dtype differs from the configuration. Returns UNIMPLEMENTED for a dtype, a weight format or a
// head_dim that the backend does not support. If `format` is kInt8, the embedding keeps its stored
// type unless the head uses the same tensor.
absl::StatusOr<ModelWeights> LoadWeights(const ModelConfig& config, const Checkpoint& checkpoint,
                                         Backend& backend, WeightFormat format);

}  // namespace incipit
