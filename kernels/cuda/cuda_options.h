// Creates a Backend that computes on a GPU. A program links one implementation: the library
// incipit::cuda, or incipit::cuda_emulated in tests.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace incipit {

// Chooses the kernels for large matrix products (large_rows_min rows or more). kOwn: kernels of
// this project. kLibrary: cuBLASLt, for comparisons. kFastest: the faster of the two, measured for
// each product size.
enum class LargeProducts : uint8_t { kOwn, kFastest, kLibrary };

struct CudaOptions {
  int32_t device = 0;
  LargeProducts large_products = LargeProducts::kOwn;
  // Path of the file that stores, for each product size, whether cuBLASLt is faster than our
  // kernels. Only kFastest uses the file. An empty path means no file.
  std::string tuning_file = {};
  // Function that the backend calls with each message for the operator, always before the first
  // step. `is_warning` is true if the message reports a problem, for example that cuBLASLt is not
  // available.
  std::function<void(std::string_view text, bool is_warning)> note = {};
  int32_t large_rows_min = 1024;  // minimum number of rows of a large product; a power of two
  // Maximum size in bytes of the buffer in device memory for the f32 results of a cuBLASLt product
  int64_t large_sums_bytes_max = int64_t{256} << 20;
};
// Creates a CUDA backend. Returns UNIMPLEMENTED in a build without CUDA, and UNAVAILABLE if there
// is no usable device.
absl::StatusOr<std::unique_ptr<Backend>> CreateCudaBackend(const CudaOptions& options);

}  // namespace incipit
