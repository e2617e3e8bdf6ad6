// Multiplies input rows by a packed weight matrix, with the inner loops of kernels/cpu/simd.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/cpu/host_memory.h"
#include "kernels/cpu/panel_packing.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/simd/kernels.h"
#include "kernels/cpu/threads.h"

namespace incipit {

// The input rows of a matrix product. If `norm_weight` is not null, the product applies the RMS
// norm to each row before the multiplication.
struct ProductInput {
  const float* x = nullptr;  // shape [rows][cols]
  // Indices of the rows of `x` to multiply, of shape [num_rows]; null: the first num_rows rows.
  const int32_t* indices = nullptr;
  int64_t num_rows = 0;
  const float* norm_weight = nullptr;  // weight of the RMS norm, of shape [cols]; null: no norm
  float epsilon = 0;

  // Returns an input with the rows [begin, begin + count) of this input.
  ProductInput Part(int64_t begin, int64_t count, int64_t cols) const {
    ProductInput part = *this;
    part.num_rows = count;
    if (indices != nullptr) {
      part.indices += begin;
    } else {
      part.x += begin * cols;
    }
    return part;
  }
};

// The output rows of a matrix product, and the operation (simd::Finish) that is applied to the sums
// of products.
struct ProductOutput {
  simd::Finish finish = simd::Finish::kStore;
  const float* bias = nullptr;  // bias, shape [outputs]; null: no bias
  float* y = nullptr;           // shape [num_rows][Width(outputs)]

  int64_t Width(int64_t outputs) const {
    return finish == simd::Finish::kSilu ? outputs / 2 : outputs;
  }
};

// The objects that all packed matrices of one backend share. The context must outlive these
// matrices.
struct ProductContext {
  const simd::Kernels& kernels;
  const Threads& threads;
  HostMemory& memory;
  Scratch<float> packed_rows, row_scales, row_of_thread;
};

// A weight matrix of shape [outputs][inputs], packed for the inner loops of kernels/cpu/simd. Not
// thread-safe.
class PackedMatrix {
 public:
  // Packs a matrix. Weights are rounded to eight bits if `source.format` is kInt8. Other weights
  // keep their stored type. Returns RESOURCE_EXHAUSTED if the memory does not suffice.
  static absl::StatusOr<std::unique_ptr<PackedMatrix>> Pack(const MatrixSource& source,
                                                            ProductContext& context);

  size_t byte_size() const { return memory_->byte_size(); }

  // Multiplies the rows of `input` by this matrix. The bits of each output row depend only on its
  // own input row.
  void Multiply(const ProductInput& input, const ProductOutput& output);

 private:
  PackedMatrix(const MatrixSource& source, const PanelShape& shape,
               std::unique_ptr<HostBuffer> memory, ProductContext& context);

  const simd::Product& product() const { return context_.kernels.products[shape_.weights]; }
  bool is_int8() const { return shape_.weights == simd::kInt8; }
  char* panels() const { return static_cast<char*>(memory_->data()); }
  // The scale of each output, for eight-bit weights; otherwise null.
  float* scales() const;
  // The value with which the sum of each output starts, for eight-bit weights; otherwise null.
  int32_t* starts() const;

  void MultiplyPass(const ProductInput& input, const ProductOutput& output);
  // Packs the input rows into tiles. Returns the packed rows, which are valid until the next call.
  const void* PackRows(const ProductInput& input, int64_t num_tiles);

  ProductContext& context_;
  const PanelShape shape_;
  const int64_t rows_, cols_;
  // The packed weight rows. For eight-bit weights, the memory also contains scales() and starts().
  std::unique_ptr<HostBuffer> memory_;
};

}  // namespace incipit
