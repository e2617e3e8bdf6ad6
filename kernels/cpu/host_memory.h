// Host memory of a backend. Allocations count against a limit, are filled with zeros and are
// aligned for vector loads.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "kernels/backend.h"

namespace incipit {

// Size in bytes of a cache line and of the widest vector.
inline constexpr size_t kHostAlignment = 64;

// Number of readable bytes after the end of each buffer, so that a vector load of the last elements
// of a row needs no mask.
inline constexpr size_t kHostSlack = 64;

// Size of a huge page. Memory is mapped in huge pages if the kernel has them: each step reads large
// arrays from end to end, and huge pages save most of the address translation.
inline constexpr size_t kHugePageBytes = size_t{2} << 20;

struct UnmapPages {
  size_t bytes = 0;
  void operator()(void* data) const;
};
using Pages = std::unique_ptr<void, UnmapPages>;

// Returns at least `bytes` zeroed bytes that start at a huge page; null if the kernel refuses. The
// kernel provides a page's memory when the page is first written.
Pages MapPages(size_t bytes);

class HostMemory;

class HostBuffer final : public Buffer {
 public:
  // `data` points into `allocation`, which has kHostSlack readable bytes after the end of the
  // buffer.
  HostBuffer(HostMemory& memory, std::shared_ptr<void> allocation, void* data, size_t bytes)
      : memory_(memory), allocation_(std::move(allocation)), data_(data), bytes_(bytes) {}
  ~HostBuffer() override;
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;

  void* data() const override { return data_; }
  size_t byte_size() const override { return bytes_; }

 private:
  HostMemory& memory_;
  const std::shared_ptr<void> allocation_;
  void* const data_;
  const size_t bytes_;
};

// Counts the bytes that a backend has allocated. Small buffers come from the heap. Larger buffers
// share mappings of huge pages; a mapping is unmapped with the last buffer in it. Thread-safe.
class HostMemory {
 public:
  // If `limit_bytes` is 0, the limit is the memory that the machine and its cgroup have left now.
  explicit HostMemory(size_t limit_bytes);

  // Returns the bytes that can still be allocated: the rest of the limit, or the memory that the
  // host has left if that is less.
  size_t FreeBytes() const;

  // Allocates a buffer. Returns RESOURCE_EXHAUSTED, with `what`, the requested and the free bytes
  // in the message, if there is not enough memory.
  absl::StatusOr<std::unique_ptr<HostBuffer>> Allocate(size_t bytes, std::string_view what);

 private:
  friend class HostBuffer;

  struct Place {
    std::shared_ptr<void> allocation;
    void* data = nullptr;
  };
  // Allocates `bytes` from the heap. The result's `data` is null if there is no memory.
  static Place OnHeap(size_t bytes);
  Place InPages(size_t bytes);

  const size_t limit_bytes_;
  std::atomic<size_t> allocated_bytes_{0};

  Mutex mutex_;
  // The mapping in which the next buffers are allocated.
  std::shared_ptr<void> shared_ ABSL_GUARDED_BY(mutex_);
  size_t shared_used_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Returns a buffer with all elements of the parts, one part after the other, converted to f32.
absl::StatusOr<std::unique_ptr<Buffer>> StoreAsF32(HostMemory& memory,
                                                   std::span<const ConstTensorView> parts);

}  // namespace incipit
