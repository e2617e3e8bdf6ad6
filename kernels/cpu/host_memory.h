// Memory of the host as a backend's: counted against a limit, zeroed, aligned for vector loads.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace incipit {

inline constexpr size_t kHostAlignment = 64;  // a cache line, and the widest vector

// Zeroed memory with `kHostSlack` readable bytes after its end, so that a vector load of a row's
// tail needs no mask.
inline constexpr size_t kHostSlack = 64;

class HostMemory;

class HostBuffer final : public Buffer {
 public:
  // Takes over `allocation`, from calloc, which has room for alignment and slack.
  HostBuffer(HostMemory& memory, void* allocation, size_t bytes);
  ~HostBuffer() override;
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;

  void* data() const override { return data_; }
  size_t byte_size() const override { return bytes_; }

 private:
  HostMemory& memory_;
  void* const allocation_;
  const size_t bytes_;
  void* const data_;
};

// Counts what a backend has allocated. Thread-safe.
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

  const size_t limit_bytes_;
  std::atomic<size_t> allocated_bytes_{0};
};

// The parts one after the other, widened to f32.
absl::StatusOr<std::unique_ptr<Buffer>> StoreAsF32(HostMemory& memory,
                                                   std::span<const ConstTensorView> parts);

}  // namespace incipit
