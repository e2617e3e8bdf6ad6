// The few services of the CUDA runtime that the backend needs, with one implementation for a card
// (runtime_cuda.cpp) and one for the host emulator (kernels/emulator/runtime.cpp); which one, the
// linker decides. Whatever is enqueued on a stream runs in order and later: what it reads must stay
// as it is until then. Errors of the device stick and come from Wait.
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
  std::string software;  // of driver and runtime
  int32_t num_sms = 0;
  size_t memory_bytes = 0, l2_bytes = 0;
};

// Makes device `ordinal` this thread's. UNAVAILABLE says what is missing: a driver, the device, or
// one of compute capability 9.0. Kernels of ours are loaded with the device; `loads_all`: all of
// the process, otherwise each of a library's when it is used first, for they take hundreds of
// megabytes.
absl::StatusOr<DeviceProperties> OpenDevice(int32_t ordinal, bool loads_all = true);

// Of the device that was opened.
size_t FreeDeviceBytes();

enum class Place : uint8_t {
  kDevice,
  kPinned,  // on the host, where copies find it; kernels may read it too
};

// RESOURCE_EXHAUSTED: how many of so many bytes are missing.
absl::Status OutOfMemory(Place place, size_t bytes);

// Owns memory; zero at the start.
class Memory {
 public:
  Memory() = default;
  // RESOURCE_EXHAUSTED as OutOfMemory.
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
  int32_t cluster = 1;     // blocks that see each other's shared memory
  bool dependent = false;  // may start while the kernel before it ends (WaitForEarlierKernels)
};

// Of a kernel with so many blocks' work, whose blocks take one piece after the other: at most as
// many as run at once.
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

  // Between device memory and pinned memory, either way, or within the device.
  void Copy(void* to, const void* from, size_t bytes);
  void Clear(void* device, size_t bytes);
  // Until everything before it has run.
  absl::Status Wait();

  // What the implementation of Launch, Event and Graph needs.
  struct State;
  State& state() { return *state_; }

 private:
  explicit Stream(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// A kernel, as kernels/cuda/device/device.h says what one is. Instantiated in kernels/cuda/*.cu.
template <class Kernel>
void Launch(Stream& stream, const LaunchShape& shape, const typename Kernel::Args& args);

// A point in a stream.
class Event {
 public:
  static absl::StatusOr<Event> Create();
  ~Event();
  Event(Event&&) noexcept;
  Event& operator=(Event&&) noexcept;

  void Record(Stream& stream);
  // Until what was before the latest Record has run; at once if there was none.
  absl::Status Wait();

  struct State;

 private:
  explicit Event(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// What was enqueued between Begin and End, to be enqueued again as a whole with the same arguments:
// every pointer in it must stay valid as long as the graph does.
class Graph {
 public:
  // From here on `stream` records instead of running.
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
