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

// Implementation of large matrix products (products of large_rows_min rows or more). kOwn: our own
// kernels; the bits of a row of results do not depend on the other rows. kFastest: our own kernels
// or cuBLASLt, whichever is faster for the size of the product in a measurement. kLibrary: always
// cuBLASLt; for comparisons.
enum class LargeProducts : uint8_t { kOwn, kFastest, kLibrary };

struct CudaOptions {
  int32_t device = 0;
  LargeProducts large_products = LargeProducts::kOwn;
  // Path of the file that stores which implementation is faster for each product size (kFastest).
  // If the path is empty, no file is read or written.
  std::string tuning_file = {};
  // Function that the backend calls with each message for the operator, always before the first
  // step. `is_warning` is true if cuBLASLt, the tuning file or memory for measurements is not
  // available.
  std::function<void(std::string_view text, bool is_warning)> note = {};
  int32_t large_rows_min = 1024;  // a product of this many rows or more is large; a power of two
  // Maximum size in bytes of the device memory for the sums of a cuBLASLt product
  int64_t large_sums_bytes_max = int64_t{256} << 20;
};
// Creates a CUDA backend. Returns UNIMPLEMENTED in a build without CUDA, and UNAVAILABLE if there
// is no usable device.
absl::StatusOr<std::unique_ptr<Backend>> CreateCudaBackend(const CudaOptions& options);

}  // namespace incipit
