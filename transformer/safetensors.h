// Reads the safetensors format: names, shapes and bytes of a file's tensors, in place. The file is
// not trusted: nothing that it says can lead outside its bytes.
//
// Format (github.com/huggingface/safetensors): a little-endian u64 n, n bytes of JSON
// {"name": {"dtype", "shape", "data_offsets": [begin, end)}, ..., "__metadata__": {...}}, then the
// data, which the tensors cover without gap, overlap or rest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/tensor.h"

namespace incipit {

inline constexpr size_t kSafetensorsHeaderBytesMax = 100'000'000;  // as the reference reader

struct StoredTensor {
  std::string dtype_name;      // as the file says: "BF16"
  std::optional<DType> dtype;  // none: a type that models here do not compute with
  std::vector<int64_t> shape;  // positive; empty: a scalar
  std::span<const std::byte> bytes;
};

// "[2, 3]"
std::string ShownShape(std::span<const int64_t> shape);

using StoredTensors = std::map<std::string, StoredTensor, std::less<>>;

// The tensors of a file, whose bytes must outlive the result. INVALID_ARGUMENT, naming the tensor,
// for anything that breaks the format, and for an empty tensor, which no model here has.
absl::StatusOr<StoredTensors> ParseSafetensors(std::span<const std::byte> file);

}  // namespace incipit
