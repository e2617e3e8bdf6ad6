// The few services of the CUDA runtime that the backend uses. There are two implementations, and
// the linker selects one: runtime_cuda.cpp for a GPU and kernels/emulator/runtime.cpp for the host
// emulator. Work that is enqueued on a stream runs later, in the order of enqueueing. The memory
// that enqueued work reads must not change until the work has run. The runtime keeps the first
// error of the device, and every later Wait returns this error.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace incipit::cuda {

struct DeviceProperties {
  std::string name;
  std::string software;  // versions of driver and runtime
  int32_t num_sms = 0;
  size_t memory_bytes = 0, l2_bytes = 0;
};

// Makes device `ordinal` the current device of this thread and loads our own kernels. Returns
// UNAVAILABLE if the driver is missing, if the device does not exist, or if its compute capability
// is not 9.0. If `loads_all` is true, all kernels of the process are loaded too. Otherwise a kernel
// of a library is loaded at its first use, because the kernels of a library take hundreds of
// megabytes.
absl::StatusOr<DeviceProperties> OpenDevice(int32_t ordinal, bool loads_all = true);

// Returns the number of free bytes of the opened device.
size_t FreeDeviceBytes();

enum class Place : uint8_t {
  kDevice,
  kPinned,  // host memory that the device can copy from and to; kernels may read pinned memory too
};

// Returns a RESOURCE_EXHAUSTED error for a failed allocation of `bytes` bytes. For device memory,
// the message has the numbers of bytes requested and missing.
absl::Status OutOfMemory(Place place, size_t bytes);

// Owns a range of device memory or pinned memory. All bytes are zero after the allocation.
class Memory {
 public:
  Memory() = default;
  // Allocates `bytes` zeroed bytes. Returns RESOURCE_EXHAUSTED (see OutOfMemory) if so much memory
  // is not available.
  static absl::StatusOr<Memory> Allocate(Place place, size_t bytes);
  ~Memory() { Release(); }
  Memory(Memory&& other) noexcept { *this = std::move(other); }
  Memory& operator=(Memory&& other) noexcept {
    if (this == &other) return *this;
    Release();
    place_ = other.place_;
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
    return *this;
  }

  void* data() const { return data_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  size_t byte_size() const { return bytes_; }

 private:
  void Release();

  Place place_ = Place::kDevice;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

struct LaunchShape {
  int32_t num_blocks = 1;
  int32_t cluster = 1;  // number of thread blocks that can read each other's shared memory
  // True: the kernel may start before the previous kernel has ended (WaitForEarlierKernels)
  bool dependent = false;
};

// Returns the launch shape of a kernel with enough work for `num_blocks` thread blocks. The shape
// has no more thread blocks than can run at the same time, because each thread block processes
// several pieces of work one after the other.
inline LaunchShape PersistentShape(int64_t num_blocks, int32_t num_sms, int32_t blocks_per_sm) {
  const int64_t at_once = int64_t{num_sms} * blocks_per_sm;
  return {.num_blocks = static_cast<int32_t>(std::clamp<int64_t>(num_blocks, 1, at_once)),
          .cluster = 1,
          .dependent = true};
}

class Stream {
 public:
  static absl::StatusOr<Stream> Create();
  ~Stream();
  Stream(Stream&&) noexcept;
  Stream& operator=(Stream&&) noexcept;

  // Enqueues a copy between device memory and pinned memory, in either direction, or within device
  // memory.
  void Copy(void* to, const void* from, size_t bytes);
  void Clear(void* device, size_t bytes);
  // Waits until all work that was enqueued on this stream before the call has run. Returns the
  // first error of the stream.
  absl::Status Wait();

  // State that the implementations of Launch, Event and Graph read.
  struct State;
  State& state() { return *state_; }

 private:
  explicit Stream(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Enqueues a launch of `Kernel` (kernels/cuda/device/device.h defines the form of a kernel). Launch
// is instantiated in kernels/cuda/device/*.cu.
template <class Kernel>
void Launch(Stream& stream, const LaunchShape& shape, const typename Kernel::Args& args);

// Marks a point in the work of a stream, for which a thread can wait.
class Event {
 public:
  static absl::StatusOr<Event> Create();
  ~Event();
  Event(Event&&) noexcept;
  Event& operator=(Event&&) noexcept;

  void Record(Stream& stream);
  // Waits until the work that was enqueued before the latest Record has run. Returns immediately if
  // Record has never been called.
  absl::Status Wait();

  struct State;

 private:
  explicit Event(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// The work that was enqueued on a stream between Begin and End. Graph::Launch enqueues all of this
// work again with the same arguments. Every pointer in the arguments must stay valid as long as the
// graph exists.
class Graph {
 public:
  // Makes `stream` record the work that is enqueued from now on, instead of running the work.
  static void Begin(Stream& stream);
  static absl::StatusOr<Graph> End(Stream& stream);
  ~Graph();
  Graph(Graph&&) noexcept;
  Graph& operator=(Graph&&) noexcept;

  void Launch(Stream& stream);

  struct State;

 private:
  explicit Graph(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace incipit::cuda
