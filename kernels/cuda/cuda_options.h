// Creates a Backend on a GPU. A program links one implementation: incipit::cuda, or
// incipit::cuda_emulated in tests.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace incipit {

// The implementation of matrix products of large_rows_min rows or more. kOwn: our own kernels; a
// row has the same bits beside any other rows. kFastest: for each product size, our kernels or
// cuBLASLt, depending on a measurement. kLibrary: cuBLASLt, for comparisons.
enum class LargeProducts : uint8_t { kOwn, kFastest, kLibrary };

struct CudaOptions {
  int32_t device = 0;
  LargeProducts large_products = LargeProducts::kOwn;
  std::string tuning_file = {};  // file that stores the measurements of kFastest; empty: none
  // Called before the first step with a message for the operator on large products; `is_warning` is
  // true if something is missing.
  std::function<void(std::string_view text, bool is_warning)> note = {};
  int32_t large_rows_min = 1024;                      // in rows; a power of two
  int64_t large_sums_bytes_max = int64_t{256} << 20;  // memory for unfinished results, in bytes
};
// Creates a backend. Returns UNIMPLEMENTED in a build without CUDA, UNAVAILABLE without a usable
// device.
absl::StatusOr<std::unique_ptr<Backend>> CreateCudaBackend(const CudaOptions& options);

}  // namespace incipit
