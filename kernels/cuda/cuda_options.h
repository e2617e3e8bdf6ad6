// Creates the backend that computes on an NVIDIA GPU. Programs link the library incipit::cuda.
// Tests can link incipit::cuda_emulated instead, which needs no GPU.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace incipit {

// Chooses the kernels for large matrix products. kOwn: kernels of this project. kLibrary: cuBLASLt.
// kFastest: the faster of the two, measured for each product size.
enum class LargeProducts : uint8_t { kOwn, kFastest, kLibrary };

struct CudaOptions {
  int32_t device = 0;
  LargeProducts large_products = LargeProducts::kOwn;
  // File that stores, for each size of a matrix product, whether cuBLASLt is faster than our own
  // kernels. Only kFastest uses the file. Empty: no file.
  std::string tuning_file = {};
  // Function that the backend calls with each message for the operator, before the first batch of
  // tokens is computed. `is_warning` is true if the message reports a problem.
  std::function<void(std::string_view text, bool is_warning)> note = {};
  // Matrix products with fewer input rows (tokens) than this number always use kernels of this
  // project. Must be a power of two.
  int32_t large_rows_min = 1024;
  // Maximum size in bytes of the GPU-memory buffer for the f32 results of a cuBLASLt product
  int64_t large_sums_bytes_max = int64_t{256} << 20;
};
// Creates a CUDA backend. Returns UNIMPLEMENTED in a build without CUDA, and UNAVAILABLE if there
// is no usable GPU.
absl::StatusOr<std::unique_ptr<Backend>> CreateCudaBackend(const CudaOptions& options);

}  // namespace incipit
