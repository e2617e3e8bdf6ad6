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

// Selects the implementation of large matrix products (large_rows_min rows or more). kOwn: our own
// kernels; a row has the same bits beside any other rows. kFastest: for each product size, our
// kernels or cuBLASLt, whichever is faster in a measurement. kLibrary: cuBLASLt, for comparisons.
enum class LargeProducts : uint8_t { kOwn, kFastest, kLibrary };

struct CudaOptions {
  int32_t device = 0;
  LargeProducts large_products = LargeProducts::kOwn;
  // Path of the file that stores the measurements of kFastest; empty: no file
  std::string tuning_file = {};
  // Called with messages for the operator, before the first step. `is_warning` is true if cuBLASLt,
  // the tuning file or memory for measurements is not available.
  std::function<void(std::string_view text, bool is_warning)> note = {};
  int32_t large_rows_min = 1024;  // minimum number of rows of a large product; a power of two
  // Maximum size in bytes of the device memory for the sums of a cuBLASLt product
  int64_t large_sums_bytes_max = int64_t{256} << 20;
};
// Creates a CUDA backend. Returns UNIMPLEMENTED in a build without CUDA, and UNAVAILABLE if there
// is no usable device.
absl::StatusOr<std::unique_ptr<Backend>> CreateCudaBackend(const CudaOptions& options);

}  // namespace incipit
