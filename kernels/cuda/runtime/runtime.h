// Interface to the CUDA runtime. The linker selects the implementation: runtime_cuda.cpp for a GPU,
// or kernels/emulator/runtime/runtime.cpp for the emulator.
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
  std::string software;  // versions of the NVIDIA driver and of the CUDA runtime
  int32_t num_sms = 0;
  size_t memory_bytes = 0, l2_bytes = 0;
};

// Selects device `ordinal` for this thread and loads the kernels of this project. If `loads_all` is
// true, also loads all kernels of libraries (hundreds of megabytes). Returns UNAVAILABLE if the
// device cannot be used or does not have compute capability 9.0.
absl::StatusOr<DeviceProperties> OpenDevice(int32_t ordinal, bool loads_all = true);

size_t FreeDeviceBytes();

enum class Place : uint8_t {
  kDevice,
  // pinned host memory, which kernels can read
  kPinned,
};

// Returns the RESOURCE_EXHAUSTED error for a failed allocation of `bytes` bytes. For device memory,
// the message states how many bytes are missing.
absl::Status OutOfMemory(Place place, size_t bytes);

// Owns a range of device memory or of pinned host memory.
class Memory {
 public:
  Memory() = default;
  // Allocates `bytes` bytes, all zero. Returns RESOURCE_EXHAUSTED if there is too little memory.
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
  // number of thread blocks in each thread block cluster
  int32_t cluster = 1;
  // True if the kernel may start before the previous kernel has ended. REQUIRES: the kernel calls
  // WaitForEarlierKernels.
  bool dependent = false;
};

// Returns a launch shape with `num_blocks` thread blocks, but at most as many as can run at the
// same time. A thread block may then have to process several work items.
inline LaunchShape PersistentShape(int64_t num_blocks, int32_t num_sms, int32_t blocks_per_sm) {
  const int64_t at_once = int64_t{num_sms} * blocks_per_sm;
  return {.num_blocks = static_cast<int32_t>(std::clamp<int64_t>(num_blocks, 1, at_once)),
          .cluster = 1,
          .dependent = true};
}

// A queue of device work, which runs in the order in which it was enqueued. REQUIRES: memory that
// enqueued work reads does not change before this work has run. After an error, every call of Wait
// returns the error.
class Stream {
 public:
  static absl::StatusOr<Stream> Create();
  ~Stream();
  Stream(Stream&&) noexcept;
  Stream& operator=(Stream&&) noexcept;

  // Enqueues a copy within device memory, or between device memory and pinned host memory.
  void Copy(void* to, const void* from, size_t bytes);
  // Enqueues copies of `num_rows` rows of `row_bytes` bytes each. The stride is the distance in
  // bytes between the beginnings of two consecutive rows.
  struct Rows {
    void* to = nullptr;
    size_t to_stride = 0;
    const void* from = nullptr;
    size_t from_stride = 0;
    size_t row_bytes = 0, num_rows = 0;
  };
  void CopyRows(const Rows& rows);
  void Clear(void* device, size_t bytes);
  // Waits until all enqueued work of this stream has run. Returns the first error of the stream.
  absl::Status Wait();

  // Data of a stream for the implementations of Launch, Event and Graph.
  struct State;
  State& state() { return *state_; }

 private:
  explicit Stream(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Enqueues a launch of `Kernel`; kernels/cuda/device/device.h describes the members of `Kernel`.
// The files kernels/cuda/device/*.cu instantiate Launch.
template <class Kernel>
void Launch(Stream& stream, const LaunchShape& shape, const typename Kernel::Args& args);

// A marked position in the queue of a stream. The host can wait until the device has run all work
// that was enqueued before this position.
class Event {
 public:
  static absl::StatusOr<Event> Create();
  ~Event();
  Event(Event&&) noexcept;
  Event& operator=(Event&&) noexcept;

  void Record(Stream& stream);
  // Waits until the work that was enqueued before the latest Record has run. Returns immediately if
  // Record was never called.
  absl::Status Wait();

  struct State;

 private:
  explicit Event(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Recorded work of a stream, which Launch enqueues again with the same arguments. REQUIRES: all
// pointers in the arguments stay valid while the graph exists.
class Graph {
 public:
  // Begins a recording: until End, `stream` records enqueued work instead of running the work.
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
