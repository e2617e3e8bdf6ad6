// A checkpoint's tensors as weights on a backend: checked against the configuration by name, shape
// and dtype, so that the forward pass cannot meet one that does not fit.
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

// As users name them.
inline constexpr EnumName<WeightFormat> kWeightFormatNames[] = {{WeightFormat::kAsStored, "auto"},
                                                                {WeightFormat::kInt8, "int8"}};

// One decoder layer. Pointers that the configuration does not ask for are null.
struct LayerWeights {
  std::unique_ptr<Buffer> attention_norm;        // f32 [hidden]
  std::unique_ptr<Weight> qkv;                   // [(heads + 2 * kv_heads) * head_dim, hidden]
  std::unique_ptr<Buffer> qkv_bias;              // f32 [rows of qkv]
  std::unique_ptr<Buffer> query_norm, key_norm;  // f32 [head_dim]
  std::unique_ptr<Weight> output;                // [hidden, heads * head_dim]
  std::unique_ptr<Buffer> output_bias;           // f32 [hidden]
  std::unique_ptr<Buffer> mlp_norm;              // f32 [hidden]
  std::unique_ptr<Weight> gate_up;               // [2 * intermediate, hidden]
  std::unique_ptr<Buffer> gate_up_bias;          // f32 [2 * intermediate]
  std::unique_ptr<Weight> down;                  // [hidden, intermediate]
  std::unique_ptr<Buffer> down_bias;             // f32 [hidden]
};

struct ModelWeights {
  DType dtype = DType::kF32;  // of every tensor
  WeightFormat format = WeightFormat::kAsStored;
  std::unique_ptr<Weight> embedding;  // [vocab, hidden]
  std::vector<LayerWeights> layers;
  std::unique_ptr<Buffer> final_norm;   // f32 [hidden]
  std::unique_ptr<Weight> head;         // [vocab, hidden]; of a tied model, the embedding again
  std::vector<std::string> non_finite;  // names of tensors with an infinity or a NaN
};

// Hands every tensor to the backend, which may use it in place: `checkpoint` must outlive the
// result. INVALID_ARGUMENT for a tensor that is missing, left over, or of another shape or dtype
// than the configuration says; UNIMPLEMENTED for a dtype, a format or a head size that the backend
// lacks. In eight bits an embedding stays as stored unless the head is tied to it.
absl::StatusOr<ModelWeights> LoadWeights(const ModelConfig& config, const Checkpoint& checkpoint,
                                         Backend& backend, WeightFormat format);

}  // namespace incipit
