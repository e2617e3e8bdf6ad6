// Reads a file in the safetensors format: the name, the shape and the bytes of each tensor. The
// bytes are not copied. The file is untrusted, so all offsets are checked.
//
// The safetensors format (github.com/huggingface/safetensors) begins with a 64-bit little-endian
// number n. The next n bytes are the JSON header, followed by the data of the tensors. The header
// is {"name": {"dtype", "shape", "data_offsets": [begin, end)}, ..., "__metadata__": {...}}. Every
// byte of the data belongs to exactly one tensor.
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

// Maximum size of the JSON header of a safetensors file, in bytes. The safetensors library has the
// same maximum.
inline constexpr size_t kSafetensorsHeaderBytesMax = 100'000'000;

struct StoredTensor {
  std::string dtype_name;      // element type as named in the file, such as "BF16"
  std::optional<DType> dtype;  // element type; absent if no supported model has this type
  std::vector<int64_t> shape;  // size of each dimension, all above 0; empty for a single number
  std::span<const std::byte> bytes;
};

// Returns `shape` as text, for example "[2, 3]".
std::string ShownShape(std::span<const int64_t> shape);

using StoredTensors = std::map<std::string, StoredTensor, std::less<>>;

// Returns the tensors of a safetensors file with the contents `file`. REQUIRES: `file` outlives the
// returned tensors. Returns INVALID_ARGUMENT if the file is malformed or contains an empty tensor.
// The error message contains the name of the tensor.
absl::StatusOr<StoredTensors> ParseSafetensors(std::span<const std::byte> file);

}  // namespace incipit
