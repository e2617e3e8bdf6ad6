// Reads files in the safetensors format: the name, shape and bytes of each tensor, without a copy
// of the bytes. The file is untrusted, so all offsets are checked.
//
// The safetensors format (github.com/huggingface/safetensors) is a little-endian u64 n, then a
// header of n bytes of JSON, then the data. The header is {"name": {"dtype", "shape",
// "data_offsets": [begin, end)}, ..., "__metadata__": {...}}. The tensors cover the data without
// gaps and overlaps, up to the last byte.
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

// Maximum size of the JSON header in bytes. The reference implementation has the same limit.
inline constexpr size_t kSafetensorsHeaderBytesMax = 100'000'000;

struct StoredTensor {
  std::string dtype_name;      // name of the type in the file, for example "BF16"
  std::optional<DType> dtype;  // absent if no supported model uses the type
  std::vector<int64_t> shape;  // sizes of the dimensions, all positive; empty: a scalar
  std::span<const std::byte> bytes;
};

// Returns `shape` as text, for example "[2, 3]".
std::string ShownShape(std::span<const int64_t> shape);

using StoredTensors = std::map<std::string, StoredTensor, std::less<>>;

// Returns the tensors of a safetensors file with the contents `file`, which must outlive the
// result. Returns INVALID_ARGUMENT if the file violates the format or contains an empty tensor,
// which no supported model has. The message contains the name of the tensor.
absl::StatusOr<StoredTensors> ParseSafetensors(std::span<const std::byte> file);

}  // namespace incipit
