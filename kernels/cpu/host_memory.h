// Memory of the host as a backend's: counted against a limit, zeroed, aligned for vector loads.
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

inline constexpr size_t kHostAlignment = 64;  // a cache line, and the widest vector

// Zeroed memory with `kHostSlack` readable bytes after its end, so that a vector load of a row's
// tail needs no mask.
inline constexpr size_t kHostSlack = 64;

// Memory straight from the kernel, in huge pages if the kernel has them: large arrays are read from
// end to end in every step, and huge pages save most of the address translation.
inline constexpr size_t kHugePageBytes = size_t{2} << 20;

struct UnmapPages {
  size_t bytes = 0;
  void operator()(void* data) const;
};
using Pages = std::unique_ptr<void, UnmapPages>;

// Returns at least `bytes` zeroed bytes that start at a huge page; null if the kernel refuses. A
// page costs memory once it is written.
Pages MapPages(size_t bytes);

class HostMemory;

class HostBuffer final : public Buffer {
 public:
  // `allocation`, which has room for the slack, is what `data` lies in.
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

// Counts what a backend has allocated. Small buffers come from the heap; larger ones share mappings
// of huge pages, each of which goes back to the kernel with the last buffer in it. Thread-safe.
class HostMemory {
 public:
  // limit_bytes 0: what the machine and its cgroup have left now.
  explicit HostMemory(size_t limit_bytes);

  // What may still be allocated: under the limit, and under what the host has left now.
  size_t FreeBytes() const;

  // RESOURCE_EXHAUSTED, naming `what`, the bytes asked for and those left.
  absl::StatusOr<std::unique_ptr<HostBuffer>> Allocate(size_t bytes, std::string_view what);

 private:
  friend class HostBuffer;

  struct Place {
    std::shared_ptr<void> allocation;
    void* data = nullptr;
  };
  // Nothing where there is no memory.
  static Place OnHeap(size_t bytes);
  Place InPages(size_t bytes);

  const size_t limit_bytes_;
  std::atomic<size_t> allocated_bytes_{0};

  Mutex mutex_;
  std::shared_ptr<void> shared_ ABSL_GUARDED_BY(mutex_);  // the mapping that is being filled
  size_t shared_used_ ABSL_GUARDED_BY(mutex_) = 0;
};

// The parts one after the other, widened to f32.
absl::StatusOr<std::unique_ptr<Buffer>> StoreAsF32(HostMemory& memory,
                                                   std::span<const ConstTensorView> parts);

}  // namespace incipit
