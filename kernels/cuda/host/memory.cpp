#include "kernels/cuda/host/memory.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "base/status.h"
#include "kernels/cuda/host/packed_weight.h"
#include "kernels/numeric.h"

namespace incipit::cuda {
namespace {

// Size in bytes of the pinned buffer through which weights are copied to the device. Larger weights
// are copied in pieces.
constexpr size_t kStagingBytes = size_t{32} << 20;

absl::Status GrowStaging(size_t bytes, Memory& staging) {
  if (staging.byte_size() >= bytes) return absl::OkStatus();
  staging = Memory();
  INCIPIT_ASSIGN_OR_RETURN(staging, Memory::Allocate(Place::kPinned, bytes));
  return absl::OkStatus();
}

}  // namespace

absl::Status OutOfMemory(Place place, size_t bytes) {
  if (place == Place::kPinned)
    return ResourceExhausted("{} bytes of pinned host memory are not available", bytes);
  const size_t free = FreeDeviceBytes();
  // The number of missing bytes may be 0, because an allocation can also fail if the free memory is
  // fragmented.
  return ResourceExhausted(
      "{} bytes of device memory were requested, {} bytes are free, {} bytes are missing", bytes,
      free, bytes > free ? bytes - free : 0);
}

DeviceKvPool::DeviceKvPool(const KvPoolShape& shape, Memory memory)
    : shape_(shape),
      layout_{.page_size = shape.block_size,
              .num_kv_heads = shape.num_kv_heads,
              .head_dim = shape.head_dim},
      memory_(std::move(memory)) {}

absl::StatusOr<std::unique_ptr<DeviceKvPool>> DeviceKvPool::Create(const KvPoolShape& shape,
                                                                   const BackendLimits& offered) {
  if (std::ranges::find(offered.block_sizes, shape.block_size) == offered.block_sizes.end()) {
    return Unimplemented("block size is {} tokens; the backend cuda supports {}", shape.block_size,
                         fmt::join(offered.block_sizes, ", "));
  }
  if (shape.dtype != DType::kBF16) {
    return Unimplemented(
        "keys and values of type {} are not supported: the backend cuda stores bf16",
        NameOf(shape.dtype));
  }
  if (shape.head_dim % offered.head_dim_multiple != 0 || shape.head_dim > kMaxHeadDim) {
    return Unimplemented("head_dim is {}; the backend cuda needs a multiple of {}, at most {}",
                         shape.head_dim, offered.head_dim_multiple, kMaxHeadDim);
  }
  if (int64_t{shape.num_blocks} * shape.block_size > std::numeric_limits<int32_t>::max()) {
    return Unimplemented(
        "the KV pool has {} blocks of {} tokens; the backend cuda supports at most {} tokens",
        shape.num_blocks, shape.block_size, std::numeric_limits<int32_t>::max());
  }
  const KvLayout layout = {.page_size = shape.block_size,
                           .num_kv_heads = shape.num_kv_heads,
                           .head_dim = shape.head_dim};
  const size_t elements = static_cast<size_t>(layout.LayerSize(shape.num_blocks)) *
                          static_cast<size_t>(shape.num_layers);
  INCIPIT_ASSIGN_OR_RETURN(Memory memory,
                           Memory::Allocate(Place::kDevice, elements * sizeof(dev::bf16)));
  return std::unique_ptr<DeviceKvPool>(new DeviceKvPool(shape, std::move(memory)));
}

absl::StatusOr<std::unique_ptr<DeviceWeight>> DeviceWeight::Pack(const UnpackedWeight& source,
                                                                 Memory& staging, Stream& stream) {
  std::unique_ptr<DeviceWeight> weight(new DeviceWeight);
  weight->order_ = source.order;
  weight->head_dim_ = source.head_dim;
  weight->rows_ = source.rows();
  weight->columns_ = source.columns();
  const auto bytes = static_cast<size_t>(source.packed_bytes());
  INCIPIT_ASSIGN_OR_RETURN(Memory memory, Memory::Allocate(Place::kDevice, bytes));
  weight->memory_ = std::make_shared<Memory>(std::move(memory));

  const auto unit_bytes = static_cast<size_t>(source.unit_elements()) * sizeof(uint16_t);
  const size_t units_at_once = std::max(size_t{1}, kStagingBytes / unit_bytes);
  const auto num_units = static_cast<size_t>(source.num_units());
  INCIPIT_RETURN_IF_ERROR(GrowStaging(std::min(units_at_once, num_units) * unit_bytes, staging));
  for (size_t unit = 0; unit < num_units; unit += units_at_once) {
    const size_t count = std::min(units_at_once, num_units - unit);
    PackUnits(source, static_cast<int64_t>(unit),
              {staging.as<uint16_t>(), count * unit_bytes / sizeof(uint16_t)});
    stream.Copy(weight->memory_->as<char>() + unit * unit_bytes, staging.data(),
                count * unit_bytes);
    INCIPIT_RETURN_IF_ERROR(stream.Wait());
  }
  return weight;
}

std::unique_ptr<DeviceWeight> DeviceWeight::Of(std::span<const ConstTensorView> parts,
                                               std::shared_ptr<Memory> memory) {
  const UnpackedWeight source = {.parts = parts};
  std::unique_ptr<DeviceWeight> weight(new DeviceWeight);
  weight->rows_ = source.rows();
  weight->columns_ = source.columns();
  weight->memory_ = std::move(memory);
  return weight;
}

absl::StatusOr<std::unique_ptr<Buffer>> StoreOnDevice(std::span<const ConstTensorView> parts,
                                                      Memory& staging, Stream& stream) {
  size_t count = 0;
  for (const ConstTensorView& part : parts) count += static_cast<size_t>(part.rows * part.cols);
  const size_t bytes = count * sizeof(float);
  INCIPIT_ASSIGN_OR_RETURN(Memory memory, Memory::Allocate(Place::kDevice, bytes));
  INCIPIT_RETURN_IF_ERROR(GrowStaging(bytes, staging));
  auto* out = staging.as<float>();
  for (const ConstTensorView& part : parts) {
    const auto size = static_cast<size_t>(part.rows * part.cols);
    WidenRow(part.data, part.dtype, {out, size});
    out += size;
  }
  stream.Copy(memory.data(), staging.data(), bytes);
  INCIPIT_RETURN_IF_ERROR(stream.Wait());
  return std::make_unique<DeviceBuffer>(std::move(memory));
}

}  // namespace incipit::cuda
