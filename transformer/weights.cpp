#include "transformer/weights.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/mapped_file.h"
#include "base/status.h"
#include "transformer/tensor_names.h"

namespace incipit {
namespace {

// Returns true if `bytes` contains a number that is an infinity or a NaN. `exponent` is the mask of
// the exponent bits, which are all ones in such a number.
template <typename Bits>
bool HasNonFinite(std::span<const std::byte> bytes, Bits exponent) {
  constexpr uint64_t kLanes = ~uint64_t{0} / std::numeric_limits<Bits>::max();
  const uint64_t mask = kLanes * exponent;
  const uint64_t lowest = kLanes * static_cast<Bits>(exponent & -exponent);
  uint64_t carried = 0, word = 0;
  size_t i = 0;
  for (; i + sizeof(word) <= bytes.size(); i += sizeof(word)) {
    std::memcpy(&word, bytes.data() + i, sizeof(word));
    // In an infinity or a NaN, all exponent bits are ones. Only then does the addition of 1 to the
    // lowest exponent bit carry into the sign bit.
    carried |= (word & mask) + lowest;
  }
  word = 0;
  if (i < bytes.size()) std::memcpy(&word, bytes.data() + i, bytes.size() - i);
  carried |= (word & mask) + lowest;
  return (carried & kLanes << (8 * sizeof(Bits) - 1)) != 0;
}

bool IsFinite(DType dtype, std::span<const std::byte> bytes) {
  switch (dtype) {
    case DType::kF32:
      return !HasNonFinite<uint32_t>(bytes, 0x7F800000);
    case DType::kF16:
      return !HasNonFinite<uint16_t>(bytes, 0x7C00);
    case DType::kBF16:
      return !HasNonFinite<uint16_t>(bytes, 0x7F80);
  }
  return true;
}

// Passes the tensors of a checkpoint to the backend. REQUIRES: CheckTensors has returned OK for the
// tensors.
class WeightLoader {
 public:
  WeightLoader(const ModelConfig& config, const StoredTensors& tensors, Backend& backend,
               TensorPages pages, ModelWeights& weights)
      : config_(config), tensors_(tensors), backend_(backend), pages_(pages), weights_(weights) {}

  absl::Status Load() {
    const EndNames ends = NamesOfEnds(config_, tensors_);
    is_tied_ = ends.embedding == ends.head;
    // Pack the output head first, while most memory is free: the head is the largest matrix, and
    // packing needs temporary memory.
    INCIPIT_RETURN_IF_ERROR(Pack({ends.head}, WeightRole::kHead, weights_.head));
    INCIPIT_RETURN_IF_ERROR(Pack({ends.embedding}, WeightRole::kEmbedding, weights_.embedding));
    for (int32_t layer = 0; layer < config_.num_layers; ++layer) {
      INCIPIT_RETURN_IF_ERROR(LoadLayer(layer, weights_.layers.emplace_back()));
    }
    return Store({kFinalNormName}, weights_.final_norm);
  }

 private:
  using Names = std::initializer_list<std::string_view>;

  absl::Status LoadLayer(int32_t layer, LayerWeights& to) {
    const auto name = [layer](std::string_view part) { return LayerTensorName(layer, part); };
    const std::string q = name("self_attn.q_proj."), k = name("self_attn.k_proj."),
                      v = name("self_attn.v_proj."), o = name("self_attn.o_proj."),
                      gate = name("mlp.gate_proj."), up = name("mlp.up_proj."),
                      down = name("mlp.down_proj.");
    const std::string w = "weight", b = "bias";
    INCIPIT_RETURN_IF_ERROR(Store({name("input_layernorm.weight")}, to.attention_norm));
    const WeightUse qkv(WeightRole::kQkv, config_.qk_norm ? 0 : config_.head_dim);
    INCIPIT_RETURN_IF_ERROR(Pack({q + w, k + w, v + w}, qkv, to.qkv));
    INCIPIT_RETURN_IF_ERROR(Pack({o + w}, WeightRole::kOutput, to.output));
    INCIPIT_RETURN_IF_ERROR(Store({name("post_attention_layernorm.weight")}, to.mlp_norm));
    INCIPIT_RETURN_IF_ERROR(Pack({gate + w, up + w}, WeightRole::kGateUp, to.gate_up));
    INCIPIT_RETURN_IF_ERROR(Pack({down + w}, WeightRole::kDown, to.down));
    if (config_.qkv_bias) INCIPIT_RETURN_IF_ERROR(Store({q + b, k + b, v + b}, to.qkv_bias));
    if (config_.output_bias) INCIPIT_RETURN_IF_ERROR(Store({o + b}, to.output_bias));
    if (config_.qk_norm) {
      INCIPIT_RETURN_IF_ERROR(Store({name("self_attn.q_norm.weight")}, to.query_norm));
      INCIPIT_RETURN_IF_ERROR(Store({name("self_attn.k_norm.weight")}, to.key_norm));
    }
    if (config_.mlp_bias) {
      INCIPIT_RETURN_IF_ERROR(Store({gate + b, up + b}, to.gate_up_bias));
      INCIPIT_RETURN_IF_ERROR(Store({down + b}, to.down_bias));
    }
    return absl::OkStatus();
  }

  absl::Status Pack(Names names, WeightUse use, std::unique_ptr<Weight>& to) {
    const std::vector<ConstTensorView> parts = Views(names);
    const bool as_stored = use.role == WeightRole::kEmbedding && !is_tied_;
    absl::StatusOr<std::unique_ptr<Weight>> weight = backend_.PackWeight(
        parts, use, as_stored ? WeightFormat::kAsStored : weights_.format, Shard());
    if (!weight.ok()) return Annotate(weight.status(), *names.begin());
    if (pages_ == TensorPages::kReleased) {
      for (const std::string_view name : names) ReleasePages(tensors_.find(name)->second.bytes);
    }
    to = *std::move(weight);
    return absl::OkStatus();
  }

  absl::Status Store(Names names, std::unique_ptr<Buffer>& to) {
    const std::vector<ConstTensorView> parts = Views(names);
    absl::StatusOr<std::unique_ptr<Buffer>> buffer = backend_.Store(parts);
    if (!buffer.ok()) return Annotate(buffer.status(), *names.begin());
    to = *std::move(buffer);
    return absl::OkStatus();
  }

  std::vector<ConstTensorView> Views(Names names) {
    std::vector<ConstTensorView> views;
    for (const std::string_view name : names) views.push_back(View(name));
    return views;
  }

  ConstTensorView View(std::string_view name) {
    const auto found = tensors_.find(name);
    INCIPIT_CHECK(found != tensors_.end());
    const StoredTensor& tensor = found->second;
    if (!IsFinite(*tensor.dtype, tensor.bytes)) AddNonFinite(name);
    const bool is_vector = tensor.shape.size() == 1;
    return {.data = tensor.bytes.data(),
            .dtype = *tensor.dtype,
            .rows = is_vector ? 1 : tensor.shape[0],
            .cols = is_vector ? tensor.shape[0] : tensor.shape[1]};
  }

  void AddNonFinite(std::string_view name) {
    auto& names = weights_.non_finite;
    if (std::ranges::find(names, name) == names.end()) names.emplace_back(name);
  }

  const ModelConfig& config_;
  const StoredTensors& tensors_;
  Backend& backend_;
  const TensorPages pages_;
  ModelWeights& weights_;
  bool is_tied_ = false;
};

absl::Status CheckBackend(const ModelConfig& config, const ModelWeights& weights,
                          const BackendLimits& limits) {
  const DType dtype = weights.dtype;
  if (std::ranges::find(limits.weight_dtypes, dtype) == limits.weight_dtypes.end()) {
    return Unimplemented("the weights have the type {}, which the backend {} does not support",
                         NameOf(dtype), limits.name);
  }
  if (std::ranges::find(limits.weight_formats, weights.format) == limits.weight_formats.end()) {
    return Unimplemented("the backend {} does not support eight-bit weights", limits.name);
  }
  if (config.head_dim % limits.head_dim_multiple != 0) {
    return Unimplemented("head_dim is {}; the backend {} needs a multiple of {}", config.head_dim,
                         limits.name, limits.head_dim_multiple);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelWeights> LoadWeights(const ModelConfig& config, const Checkpoint& checkpoint,
                                         Backend& backend, WeightFormat format, TensorPages pages) {
  const StoredTensors& tensors = checkpoint.tensors();
  INCIPIT_RETURN_IF_ERROR(CheckTensors(config, tensors));
  ModelWeights weights;
  weights.dtype = *tensors.find(kFinalNormName)->second.dtype;
  weights.format = format;
  INCIPIT_RETURN_IF_ERROR(CheckBackend(config, weights, backend.limits()));
  INCIPIT_RETURN_IF_ERROR(WeightLoader(config, tensors, backend, pages, weights).Load());
  return weights;
}

}  // namespace incipit
