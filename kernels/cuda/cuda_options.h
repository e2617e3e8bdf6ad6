// How to get a Backend on a GPU. A program links the implementation: incipit::cuda, or
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

// The implementation of the products of a thousand rows and more. kOwn: our kernels, so that a row
// has the same bits beside any other rows. kFastest: our kernels or cuBLASLt, whichever is measured
// to be faster for each size. kLibrary: cuBLASLt, for comparisons.
enum class LargeProducts : uint8_t { kOwn, kFastest, kLibrary };

struct CudaOptions {
  int32_t device = 0;
  LargeProducts large_products = LargeProducts::kOwn;
  std::string tuning_file = {};  // where kFastest keeps its measurements; empty: nowhere
  // Called with what an operator should know of such products, before the first step; with a
  // warning if something is missing.
  std::function<void(std::string_view text, bool is_warning)> note = {};
  int32_t large_rows_min = 1024;                      // a power of two
  int64_t large_sums_bytes_max = int64_t{256} << 20;  // for results that are not finished
};
// Creates a backend. UNIMPLEMENTED in a build without CUDA, UNAVAILABLE without a usable device.
absl::StatusOr<std::unique_ptr<Backend>> CreateCudaBackend(const CudaOptions& options);

}  // namespace incipit
