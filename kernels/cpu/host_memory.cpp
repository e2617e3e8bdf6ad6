#include "kernels/cpu/host_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "base/status.h"
#include "kernels/cpu/host_limits.h"
#include "kernels/numeric.h"

namespace incipit {
namespace {

// Minimum size in bytes of a buffer that is allocated in huge pages.
constexpr size_t kPagedBytes = size_t{256} << 10;
// Size in bytes of a mapping that several buffers share. A buffer of at least half this size has
// its own mapping.
constexpr size_t kSharedBytes = size_t{64} << 20;

uintptr_t RoundUp(uintptr_t value, uintptr_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

void UnmapPages::operator()(void* data) const { munmap(data, bytes); }

Pages MapPages(size_t bytes) {
  bytes = (bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  void* const mapping = mmap(nullptr, bytes + kHugePageBytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return nullptr;
  // Keeps `bytes` bytes of the mapping, from the first multiple of the huge-page size on. Unmaps
  // all other bytes of the mapping.
  char* const begin = static_cast<char*>(mapping);
  const size_t skipped =
      (kHugePageBytes - reinterpret_cast<uintptr_t>(begin) % kHugePageBytes) % kHugePageBytes;
  if (skipped > 0) munmap(begin, skipped);
  if (skipped < kHugePageBytes) munmap(begin + skipped + bytes, kHugePageBytes - skipped);
  // The call of madvise is only a hint. If the kernel ignores the hint, the program is correct but
  // slower.
  madvise(begin + skipped, bytes, MADV_HUGEPAGE);
  return Pages(begin + skipped, UnmapPages{bytes});
}

HostBuffer::~HostBuffer() { memory_.allocated_bytes_ -= bytes_; }

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
  Place place;
  if (bytes <= free) {
    place = bytes < kPagedBytes ? OnHeap(bytes + kHostSlack) : InPages(bytes + kHostSlack);
  }
  if (place.data == nullptr) {
    return ResourceExhausted(
        "{} needs {} bytes, but only {} bytes are free under the memory limit of {} bytes", what,
        bytes, free, limit_bytes_);
  }
  allocated_bytes_ += bytes;
  return std::make_unique<HostBuffer>(*this, std::move(place.allocation), place.data, bytes);
}

HostMemory::Place HostMemory::OnHeap(size_t bytes) {
  std::shared_ptr<void> allocation(std::calloc(bytes + kHostAlignment, 1), std::free);
  if (allocation == nullptr) return {};
  const uintptr_t data = RoundUp(reinterpret_cast<uintptr_t>(allocation.get()), kHostAlignment);
  return {std::move(allocation), reinterpret_cast<void*>(data)};
}

HostMemory::Place HostMemory::InPages(size_t bytes) {
  if (bytes >= kSharedBytes / 2) {
    std::shared_ptr<void> own = MapPages(bytes);
    void* const data = own.get();
    return {std::move(own), data};
  }
  MutexLock lock(mutex_);
  size_t begin = RoundUp(shared_used_, kHostAlignment);
  if (shared_ == nullptr || begin + bytes > kSharedBytes) {
    shared_ = MapPages(kSharedBytes);
    begin = 0;
  }
  if (shared_ == nullptr) return {};
  shared_used_ = begin + bytes;
  return {shared_, static_cast<char*>(shared_.get()) + begin};
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
