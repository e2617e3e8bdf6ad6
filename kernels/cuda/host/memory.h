// Objects in device memory that the CUDA backend creates: buffers, KV pools and weights.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/cuda/device/attention/page_layout.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/product/packed_order.h"
#include "kernels/cuda/host/packed_weight.h"
#include "kernels/cuda/runtime/runtime.h"

namespace incipit::cuda {

class DeviceBuffer final : public Buffer {
 public:
  explicit DeviceBuffer(Memory memory) : memory_(std::move(memory)) {}

  void* data() const override { return memory_.data(); }
  size_t byte_size() const override { return memory_.byte_size(); }

 private:
  Memory memory_;
};

// Keys and values of all KV cache pages, as bf16 in device memory. page_layout.h defines the
// layout.
class DeviceKvPool final : public KvPool {
 public:
  // Allocates a pool for keys and values. Returns UNIMPLEMENTED, with the reason, if the backend
  // does not support `shape`.
  static absl::StatusOr<std::unique_ptr<DeviceKvPool>> Create(const KvPoolShape& shape,
                                                              const BackendLimits& offered);

  const KvPoolShape& shape() const override { return shape_; }
  const KvLayout& layout() const { return layout_; }
  dev::bf16* layer(int32_t index) const {
    return memory_.as<dev::bf16>() + index * layout_.LayerSize(shape_.num_blocks);
  }

 private:
  DeviceKvPool(const KvPoolShape& shape, Memory memory);

  KvPoolShape shape_;
  KvLayout layout_;
  Memory memory_;
};

// A bf16 weight matrix in device memory, in the element order of packed_order.h.
class DeviceWeight final : public Weight {
 public:
  // Rounds the matrix to bf16, packs the matrix and copies it to the device. `staging` is a pinned
  // buffer for the copies; Pack enlarges `staging` if needed.
  static absl::StatusOr<std::unique_ptr<DeviceWeight>> Pack(const UnpackedWeight& source,
                                                            Memory& staging, Stream& stream);
  // Returns a weight that uses the device memory `memory`. REQUIRES: `memory` holds the packed
  // rows, in the order RowOrder::kPlain, of all matrices in `parts`.
  static std::unique_ptr<DeviceWeight> Of(std::span<const ConstTensorView> parts,
                                          std::shared_ptr<Memory> memory);

  int64_t rows() const override { return rows_; }
  int64_t cols() const override { return columns_; }
  size_t byte_size() const override { return memory_->byte_size(); }

  const std::shared_ptr<Memory>& memory() const { return memory_; }
  const dev::bf16* data() const { return memory_->as<dev::bf16>(); }
  RowOrder order() const { return order_; }
  // number of matrix rows for each attention head; used only with RowOrder::kRotary
  int32_t head_dim() const { return head_dim_; }
  int32_t num_units() const { return static_cast<int32_t>(NumUnits(order_, rows_)); }
  // Returns the number of columns of the packed matrix: cols() rounded up to a multiple of 8. The
  // additional columns are zero.
  int32_t product_columns() const { return static_cast<int32_t>((columns_ + 7) / 8 * 8); }

 private:
  DeviceWeight() = default;

  RowOrder order_ = RowOrder::kPlain;
  int32_t head_dim_ = 0;
  int64_t rows_ = 0, columns_ = 0;
  // packed matrix in device memory; an output head and an embedding may share the matrix
  std::shared_ptr<Memory> memory_;
};

// Converts all tensors in `parts` to f32 and stores them one after the other in one device buffer.
// `staging` is a pinned buffer for the copies; StoreOnDevice enlarges `staging` if needed.
absl::StatusOr<std::unique_ptr<Buffer>> StoreOnDevice(std::span<const ConstTensorView> parts,
                                                      Memory& staging, Stream& stream);

}  // namespace incipit::cuda
