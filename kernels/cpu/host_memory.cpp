#include "kernels/cpu/host_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "base/status.h"
#include "kernels/cpu/host_limits.h"
#include "kernels/numeric.h"

namespace incipit {
namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20;

uintptr_t RoundUp(uintptr_t value, uintptr_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Large arrays are read from end to end in every step; huge pages save most of the address
// translation. Only a hint: without it nothing but speed changes.
void AdviseHugePages(void* data, size_t bytes) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t begin = RoundUp(reinterpret_cast<uintptr_t>(data), page);
  const uintptr_t end = (reinterpret_cast<uintptr_t>(data) + bytes) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

}  // namespace

HostBuffer::HostBuffer(HostMemory& memory, void* allocation, size_t bytes)
    : memory_(memory),
      allocation_(allocation),
      bytes_(bytes),
      data_(reinterpret_cast<void*>(
          RoundUp(reinterpret_cast<uintptr_t>(allocation), kHostAlignment))) {
  if (bytes >= 2 * kHugePageBytes) AdviseHugePages(data_, bytes);
}

HostBuffer::~HostBuffer() {
  std::free(allocation_);
  memory_.allocated_bytes_ -= bytes_;
}

HostMemory::HostMemory(size_t limit_bytes)
    : limit_bytes_(limit_bytes > 0 ? limit_bytes : AvailableHostBytes()) {}

size_t HostMemory::FreeBytes() const {
  const size_t allocated = allocated_bytes_;
  const size_t under_limit = limit_bytes_ > allocated ? limit_bytes_ - allocated : 0;
  return std::min(under_limit, AvailableHostBytes());
}

absl::StatusOr<std::unique_ptr<HostBuffer>> HostMemory::Allocate(size_t bytes,
                                                                 std::string_view what) {
  const size_t free = FreeBytes();
  // calloc maps fresh zero pages for large sizes: what is never touched costs nothing.
  void* allocation = bytes <= free ? std::calloc(bytes + kHostAlignment + kHostSlack, 1) : nullptr;
  if (allocation == nullptr) {
    return ResourceExhausted("{} needs {} bytes; {} are left of the memory limit of {}", what,
                             bytes, free, limit_bytes_);
  }
  allocated_bytes_ += bytes;
  return std::make_unique<HostBuffer>(*this, allocation, bytes);
}

absl::StatusOr<std::unique_ptr<Buffer>> StoreAsF32(HostMemory& memory,
                                                   std::span<const ConstTensorView> parts) {
  size_t count = 0;
  for (const ConstTensorView& part : parts) count += part.byte_size() / ByteSize(part.dtype);
  INCIPIT_ASSIGN_OR_RETURN(auto buffer, memory.Allocate(count * sizeof(float), "a vector"));
  auto* out = static_cast<float*>(buffer->data());
  for (const ConstTensorView& part : parts) {
    for (int64_t i = 0; i < part.rows * part.cols; ++i) {
      *out++ = LoadF32(part.data, part.dtype, i);
    }
  }
  return buffer;
}

}  // namespace incipit
