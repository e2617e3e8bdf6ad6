// Reads the safetensors format: names, shapes and bytes of a file's tensors, without copying them.
// The file is untrusted: all offsets are checked to be inside the file.
//
// The format (github.com/huggingface/safetensors) is a little-endian u64 n, followed by n bytes of
// JSON, followed by the data. The JSON is {"name": {"dtype", "shape", "data_offsets":
// [begin, end)}, ..., "__metadata__": {...}}. The tensors cover the data without gaps, overlaps or
// remaining bytes.
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

// Maximum size of the header, in bytes. The reference implementation has the same limit.
inline constexpr size_t kSafetensorsHeaderBytesMax = 100'000'000;

struct StoredTensor {
  std::string dtype_name;      // name in the file, for example "BF16"
  std::optional<DType> dtype;  // absent: a type that the supported models do not use
  std::vector<int64_t> shape;  // sizes, all positive; empty: a scalar
  std::span<const std::byte> bytes;
};

// Returns the shape as text, for example "[2, 3]".
std::string ShownShape(std::span<const int64_t> shape);

using StoredTensors = std::map<std::string, StoredTensor, std::less<>>;

// Returns the tensors of a file. `file` must outlive the result. Returns INVALID_ARGUMENT, with the
// tensor's name, if the file violates the format or contains an empty tensor, which no supported
// model has.
absl::StatusOr<StoredTensors> ParseSafetensors(std::span<const std::byte> file);

}  // namespace incipit
