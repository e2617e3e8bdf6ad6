#include "transformer/model.h"

#include <algorithm>
#include <utility>

#include "base/status.h"

namespace incipit {
namespace {

// Returns the number of bytes of the weights in the memory of a backend, without padding that the
// backend may add.
size_t WeightBytes(const Checkpoint& checkpoint, DType activation_dtype, WeightFormat format) {
  size_t bytes = 0;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    const size_t stored = ByteSize(tensor.dtype.value_or(DType::kBF16));
    const size_t element =
        format == WeightFormat::kInt8 ? 1 : std::min(stored, ByteSize(activation_dtype));
    bytes += tensor.bytes.size() / stored * element;
  }
  return bytes;
}

}  // namespace

absl::StatusOr<Model> LoadModel(const std::filesystem::path& folder, Backend& backend,
                                WeightFormat format, TensorPages pages) {
  absl::StatusOr<ModelConfig> config = ReadModelConfig(folder);
  if (!config.ok()) return Annotate(config.status(), folder.string());
  INCIPIT_ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::Open(folder));
  const size_t free = backend.FreeBytes();
  absl::StatusOr<ModelWeights> weights = LoadWeights(*config, checkpoint, backend, format, pages);
  if (absl::IsResourceExhausted(weights.status())) {
    const size_t bytes = WeightBytes(checkpoint, backend.limits().activation_dtype, format);
    return ResourceExhausted(
        "{}: no room for the weights: the weights take {} bytes, and {} bytes of memory are "
        "missing (cause: {})",
        folder.string(), bytes, bytes > free ? bytes - free : 0, MessageOf(weights.status()));
  }
  if (!weights.ok()) return Annotate(weights.status(), folder.string());
  return Model{*std::move(config), std::move(checkpoint), *std::move(weights)};
}

}  // namespace incipit
