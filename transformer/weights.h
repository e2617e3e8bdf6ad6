// Passes the tensors of a checkpoint to a backend. Checks names, shapes and dtypes first, so the
// forward pass need not check them.
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

// Names of the weight formats in command-line flags and reports. "auto": weights keep the type that
// they have in the checkpoint.
inline constexpr EnumName<WeightFormat> kWeightFormatNames[] = {{WeightFormat::kAsStored, "auto"},
                                                                {WeightFormat::kInt8, "int8"}};

// The weights of one decoder layer. A pointer is null if the model has no such weights.
struct LayerWeights {
  // Factors of the RMS norm before the attention. Shape [hidden_size], f32.
  std::unique_ptr<Buffer> attention_norm;
  // Query, key and value matrices, stacked vertically. Shape [(num_heads + 2 * num_kv_heads) *
  // head_dim, hidden_size].
  std::unique_ptr<Weight> qkv;
  // Biases of queries, keys and values. Shape [(num_heads + 2 * num_kv_heads) * head_dim], f32.
  std::unique_ptr<Buffer> qkv_bias;
  // Factors of the RMS norms of each query head and each key head. Shape [head_dim], f32.
  std::unique_ptr<Buffer> query_norm, key_norm;
  // Output matrix of the attention. Shape [hidden_size, num_heads * head_dim].
  std::unique_ptr<Weight> output;
  std::unique_ptr<Buffer> output_bias;  // bias of the attention's output; shape [hidden_size], f32
  // Factors of the RMS norm before the MLP. Shape [hidden_size], f32.
  std::unique_ptr<Buffer> mlp_norm;
  // MLP matrices `gate` and `up`, stacked vertically. Shape [2 * intermediate_size, hidden_size].
  std::unique_ptr<Weight> gate_up;
  // Biases of the MLP matrices `gate` and `up`. Shape [2 * intermediate_size], f32.
  std::unique_ptr<Buffer> gate_up_bias;
  std::unique_ptr<Weight> down;       // MLP matrix `down`; shape [hidden_size, intermediate_size]
  std::unique_ptr<Buffer> down_bias;  // bias of the MLP matrix `down`; shape [hidden_size], f32
};

struct ModelWeights {
  DType dtype = DType::kF32;  // element type of all tensors in the checkpoint
  WeightFormat format = WeightFormat::kAsStored;
  std::unique_ptr<Weight> embedding;  // token embedding; shape [vocab, hidden_size]
  std::vector<LayerWeights> layers;
  // Factors of the RMS norm after the last layer. Shape [hidden_size], f32.
  std::unique_ptr<Buffer> final_norm;
  // Matrix of the output head (lm_head), which computes the logits. Shape [vocab, hidden_size].
  // Made from the tensor of the token embedding if the model has no tensor for the head.
  std::unique_ptr<Weight> head;
  std::vector<std::string> non_finite;  // names of all tensors that contain an infinity or a NaN
};

// What happens to the memory pages of a tensor after the backend has packed the tensor.
enum class TensorPages : uint8_t {
  kReleased,  // ReleasePages: the pages do not count as memory of this process any more
  kKept,      // the caller reads the tensors again soon, and then releases the pages
};

// Passes all tensors of `checkpoint` to the backend, which stores them in the format `format`. If
// `format` is kInt8, a token embedding that is not also the output head keeps its type in the
// checkpoint. REQUIRES: `checkpoint` outlives the result, because the backend may keep pointers to
// the tensors.
//
// Returns INVALID_ARGUMENT if a tensor is missing or unknown, or has a wrong shape or dtype.
// Returns UNIMPLEMENTED if the backend does not support the dtype, the weight format or the
// head_dim.
absl::StatusOr<ModelWeights> LoadWeights(const ModelConfig& config, const Checkpoint& checkpoint,
                                         Backend& backend, WeightFormat format,
                                         TensorPages pages = TensorPages::kReleased);

}  // namespace incipit
