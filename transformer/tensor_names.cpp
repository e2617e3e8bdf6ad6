#include "transformer/tensor_names.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/json/json.h"
#include "base/status.h"

namespace incipit {
namespace {

constexpr size_t kNamesShownMax = 4;

std::string ShownNames(std::span<const std::string> names) {
  std::string text;
  for (const std::string& name : names.first(std::min(names.size(), kNamesShownMax))) {
    if (!text.empty()) text += ", ";
    text += name;
  }
  if (names.size() > kNamesShownMax) {
    text += fmt::format(" and {} more", names.size() - kNamesShownMax);
  }
  return text;
}

void AddLayer(const ModelConfig& config, int32_t layer, std::vector<ExpectedTensor>& expected) {
  const int64_t hidden = config.hidden_size, intermediate = config.intermediate_size;
  const int64_t query_size = int64_t{config.num_heads} * config.head_dim;
  const int64_t kv_size = int64_t{config.num_kv_heads} * config.head_dim;
  const auto add = [&](std::string_view part, std::vector<int64_t> shape) {
    expected.push_back({LayerTensorName(layer, part), std::move(shape)});
  };
  add("input_layernorm.weight", {hidden});
  add("self_attn.q_proj.weight", {query_size, hidden});
  add("self_attn.k_proj.weight", {kv_size, hidden});
  add("self_attn.v_proj.weight", {kv_size, hidden});
  add("self_attn.o_proj.weight", {hidden, query_size});
  add("post_attention_layernorm.weight", {hidden});
  add("mlp.gate_proj.weight", {intermediate, hidden});
  add("mlp.up_proj.weight", {intermediate, hidden});
  add("mlp.down_proj.weight", {hidden, intermediate});
  if (config.qkv_bias) {
    add("self_attn.q_proj.bias", {query_size});
    add("self_attn.k_proj.bias", {kv_size});
    add("self_attn.v_proj.bias", {kv_size});
  }
  if (config.output_bias) add("self_attn.o_proj.bias", {hidden});
  if (config.qk_norm) {
    add("self_attn.q_norm.weight", {config.head_dim});
    add("self_attn.k_norm.weight", {config.head_dim});
  }
  if (config.mlp_bias) {
    add("mlp.gate_proj.bias", {intermediate});
    add("mlp.up_proj.bias", {intermediate});
    add("mlp.down_proj.bias", {hidden});
  }
}

// Returns true for a tensor of RoPE frequencies, which some old checkpoints contain. Such tensors
// are ignored, because the frequencies are computed from config.json.
bool IsHarmlessExtra(std::string_view name) { return name.ends_with(".rotary_emb.inv_freq"); }

absl::Status CheckShape(const ExpectedTensor& expected, const StoredTensor& stored) {
  if (stored.shape == expected.shape) return absl::OkStatus();
  return InvalidArgument("tensor {} has shape {}; config.json requires {}", expected.name,
                         ShownShape(stored.shape), ShownShape(expected.shape));
}

// Returns an error if the element type of the tensor `stored` is not supported, differs from the
// dtype in config.json, or differs from `first_dtype_name` (the type of the final norm).
absl::Status CheckDType(const ModelConfig& config, const ExpectedTensor& expected,
                        const StoredTensor& stored, std::string_view first_dtype_name) {
  if (!stored.dtype) {
    return Unimplemented("tensor {} has the type {}; the supported types are F32, F16 and BF16",
                         expected.name, stored.dtype_name);
  }
  if (config.dtype && *stored.dtype != *config.dtype) {
    return InvalidArgument(
        "tensor {} has the type {}, but the dtype of config.json is {}; correct one of them",
        expected.name, stored.dtype_name, NameOf(*config.dtype));
  }
  if (stored.dtype_name != first_dtype_name) {
    return InvalidArgument(
        "tensor {} has the type {}, but tensor {} has the type {}; all tensors must have the same "
        "type",
        expected.name, stored.dtype_name, kFinalNormName, first_dtype_name);
  }
  return absl::OkStatus();
}

}  // namespace

std::string LayerTensorName(int32_t layer, std::string_view part) {
  return fmt::format("model.layers.{}.{}", layer, part);
}

std::vector<ExpectedTensor> ExpectedTensors(const ModelConfig& config) {
  std::vector<ExpectedTensor> expected;
  expected.push_back({std::string(kFinalNormName), {config.hidden_size}});
  for (int32_t layer = 0; layer < config.num_layers; ++layer) AddLayer(config, layer, expected);
  return expected;
}

EndNames NamesOfEnds(const ModelConfig& config, const StoredTensors& tensors) {
  EndNames names;
  if (!config.tied_embeddings && config.tying_is_given) return names;
  if (!tensors.contains(kHeadName)) names.head = kEmbeddingName;
  if (!tensors.contains(kEmbeddingName)) names.embedding = names.head;
  return names;
}

absl::Status CheckTensors(const ModelConfig& config, const StoredTensors& tensors) {
  std::vector<ExpectedTensor> expected = ExpectedTensors(config);
  const EndNames ends = NamesOfEnds(config, tensors);
  expected.push_back({std::string(ends.embedding), {config.vocab_size, config.hidden_size}});
  if (ends.head != ends.embedding) {
    expected.push_back({std::string(ends.head), {config.vocab_size, config.hidden_size}});
  }

  std::vector<std::string> missing, extra;
  std::set<std::string_view> known;
  for (const ExpectedTensor& tensor : expected) {
    known.insert(tensor.name);
    if (!tensors.contains(tensor.name)) missing.push_back(tensor.name);
  }
  for (const auto& [name, stored] : tensors) {
    if (!known.contains(name) && !IsHarmlessExtra(name)) extra.push_back(ShownValue(name));
  }
  if (!missing.empty()) {
    return InvalidArgument("these tensors are missing: {}; config.json requires {} tensors",
                           ShownNames(missing), expected.size());
  }
  if (!extra.empty()) {
    return InvalidArgument(
        "the checkpoint has tensors that a model with this config.json does not have: {}",
        ShownNames(extra));
  }
  const std::string& first_dtype_name = tensors.find(kFinalNormName)->second.dtype_name;
  for (const ExpectedTensor& tensor : expected) {
    const StoredTensor& stored = tensors.find(tensor.name)->second;
    INCIPIT_RETURN_IF_ERROR(CheckShape(tensor, stored));
    INCIPIT_RETURN_IF_ERROR(CheckDType(config, tensor, stored, first_dtype_name));
  }
  return absl::OkStatus();
}

}  // namespace incipit
