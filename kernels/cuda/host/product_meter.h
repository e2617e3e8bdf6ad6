// Takes the time of products while nothing else is to do, on inputs that keep the multipliers busy.
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
  // Room for so many numbers of x, and so many bytes of results. RESOURCE_EXHAUSTED as
  // Memory::Allocate.
  static absl::StatusOr<ProductMeter> Create(Stream& stream, int64_t x_count, size_t out_bytes);

  absl::Status SetRows(int64_t rows);
  const int32_t* num_rows() const { return num_rows_.as<int32_t>(); }
  const dev::bf16* x() const { return x_.as<dev::bf16>(); }
  void* out() const { return out_.data(); }
  Stream& stream() { return *stream_; }

  // Of one call of `enqueue`: the shortest of a few samples.
  absl::StatusOr<double> SecondsOf(absl::FunctionRef<absl::Status()> enqueue);

 private:
  explicit ProductMeter(Stream& stream) : stream_(&stream) {}

  Stream* stream_;
  Memory num_rows_, pinned_rows_, x_, out_;
};

}  // namespace incipit::cuda
