// Allocates the host memory of a backend. Allocated memory counts against a limit, is filled with
// zeros, and is aligned for vector loads.
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

// Alignment of buffers in bytes: the size of a cache line and of the widest vector.
inline constexpr size_t kHostAlignment = 64;

// Number of bytes after the end of each buffer that are safe to read. A vector load of the last
// elements of a buffer may read past the end.
inline constexpr size_t kHostSlack = 64;

// Size of a huge page in bytes. Huge pages make the address translation of large buffers faster.
inline constexpr size_t kHugePageBytes = size_t{2} << 20;

struct UnmapPages {
  size_t bytes = 0;
  void operator()(void* data) const;
};
using Pages = std::unique_ptr<void, UnmapPages>;

// Maps at least `bytes` bytes of zeroed memory, aligned to a huge page. Returns null on failure.
// The kernel provides the memory of a page when the page is first written.
Pages MapPages(size_t bytes);

class HostMemory;

class HostBuffer final : public Buffer {
 public:
  // The buffer consists of the `bytes` bytes at address `data` inside `allocation`. At least
  // kHostSlack bytes after the buffer are readable.
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

// Allocates the buffers of a backend and counts their bytes. Small buffers are allocated from the
// heap, larger buffers in mappings of huge pages. Thread-safe.
class HostMemory {
 public:
  // `limit_bytes` is the maximum sum of the sizes of all buffers. If `limit_bytes` is 0, the limit
  // is the memory that this process can allocate now (AvailableHostBytes).
  explicit HostMemory(size_t limit_bytes);

  // Returns the number of bytes that can still be allocated: the unused part of the limit, or the
  // free memory of the host if that is less.
  size_t FreeBytes() const;

  // Allocates a buffer of `bytes` bytes. Returns RESOURCE_EXHAUSTED if there is not enough memory.
  // The error message contains the requested bytes, the free bytes and `what`, a name for the
  // buffer.
  absl::StatusOr<std::unique_ptr<HostBuffer>> Allocate(size_t bytes, std::string_view what);

 private:
  friend class HostBuffer;

  struct Place {
    std::shared_ptr<void> allocation;
    void* data = nullptr;
  };
  // Allocates `bytes` bytes from the heap. If the heap has no memory, `data` of the result is null.
  static Place OnHeap(size_t bytes);
  Place InPages(size_t bytes);

  const size_t limit_bytes_;
  std::atomic<size_t> allocated_bytes_{0};

  Mutex mutex_;
  // The mapping in which the next buffers of less than kSharedBytes / 2 bytes are allocated.
  std::shared_ptr<void> shared_ ABSL_GUARDED_BY(mutex_);
  size_t shared_used_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Converts the tensors in `parts` to f32 and copies them, one after the other, to a new buffer.
absl::StatusOr<std::unique_ptr<Buffer>> StoreAsF32(HostMemory& memory,
                                                   std::span<const ConstTensorView> parts);

}  // namespace incipit
