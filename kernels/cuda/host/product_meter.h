// Measures the time of matrix products on an otherwise idle GPU. The input matrix is not filled
// with zeros, because a GPU multiplies zeros faster.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/runtime/runtime.h"

namespace incipit::cuda {

class ProductMeter {
 public:
  // Allocates memory for an input matrix of `x_count` elements and for `out_bytes` bytes of
  // results. Returns RESOURCE_EXHAUSTED if there is too little memory.
  static absl::StatusOr<ProductMeter> Create(Stream& stream, int64_t x_count, size_t out_bytes);

  absl::Status SetRows(int64_t rows);
  const int32_t* num_rows() const { return num_rows_.as<int32_t>(); }
  const dev::bf16* x() const { return x_.as<dev::bf16>(); }
  void* out() const { return out_.data(); }
  Stream& stream() { return *stream_; }

  // Returns the time in seconds that the device needs for one call of `enqueue`, which enqueues
  // work on the stream. The result is the minimum of a few measurements.
  absl::StatusOr<double> SecondsOf(absl::FunctionRef<absl::Status()> enqueue);

 private:
  explicit ProductMeter(Stream& stream) : stream_(&stream) {}

  Stream* stream_;
  Memory num_rows_, pinned_rows_, x_, out_;
};

}  // namespace incipit::cuda
