// Implements kernels/cuda/runtime/runtime.h for a GPU.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/status.h"
#include "kernels/cuda/runtime/runtime.h"

namespace incipit::cuda {

std::vector<const void*>& Entries() {
  static std::vector<const void*> entries;
  return entries;
}

namespace {

// Maximum stride in bytes of cudaMemcpy2DAsync (cudaDeviceProp::memPitch of all supported devices).
constexpr size_t kStrideMax = 0x7fffffff;

absl::Status Failure(cudaError_t error, std::string_view what) {
  if (error == cudaSuccess) return absl::OkStatus();
  if (error == cudaErrorMemoryAllocation) {
    return ResourceExhausted("{} failed: the device has too little free memory", what);
  }
  return Internal("{} failed: {} ({})", what, cudaGetErrorString(error), cudaGetErrorName(error));
}

std::string Version(int number) { return fmt::format("{}.{}", number / 1000, number % 1000 / 10); }

}  // namespace

absl::StatusOr<DeviceProperties> OpenDevice(int32_t ordinal, bool loads_all) {
  // EAGER loads all kernels when the device is opened. LAZY loads a kernel at its first use, which
  // can fail if the KV cache fills the memory. The driver reads this environment variable at the
  // first call of a CUDA function.
  (void)setenv("CUDA_MODULE_LOADING", loads_all ? "EAGER" : "LAZY", /*overwrite=*/0);
  int driver = 0, runtime = 0, count = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    return Unavailable("no NVIDIA driver on this machine (libcuda.so.1); use --backend cpu");
  }
  cudaRuntimeGetVersion(&runtime);
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess) {
    return Unavailable("no usable CUDA device: {}; driver {}, built for CUDA {}",
                       cudaGetErrorString(error), Version(driver), Version(runtime));
  }
  if (ordinal < 0 || ordinal >= count) {
    return Unavailable("CUDA device {} does not exist; this machine has {} devices", ordinal,
                       count);
  }
  cudaDeviceProp found = {};
  if (const cudaError_t error = cudaGetDeviceProperties(&found, ordinal); error != cudaSuccess) {
    return Unavailable("the properties of CUDA device {} cannot be read: {}", ordinal,
                       cudaGetErrorString(error));
  }
  if (found.major != 9) {
    return Unavailable(
        "CUDA device {} ({}) has compute capability {}.{}; the kernels are built for compute "
        "capability 9.0 (H100, H200)",
        ordinal, found.name, found.major, found.minor);
  }
  if (const cudaError_t error = cudaSetDevice(ordinal); error != cudaSuccess) {
    return Unavailable("CUDA device {} ({}) cannot be used: {}", ordinal, found.name,
                       cudaGetErrorString(error));
  }
  for (const void* const entry : Entries()) {
    cudaFuncAttributes loaded = {};
    INCIPIT_RETURN_IF_ERROR(Failure(cudaFuncGetAttributes(&loaded, entry), "loading the kernels"));
  }
  return DeviceProperties{
      .name = found.name,
      .software = fmt::format("driver {}, runtime {}", Version(driver), Version(runtime)),
      .num_sms = found.multiProcessorCount,
      .memory_bytes = found.totalGlobalMem,
      .l2_bytes = static_cast<size_t>(found.l2CacheSize)};
}

size_t FreeDeviceBytes() {
  size_t free = 0, total = 0;
  return cudaMemGetInfo(&free, &total) == cudaSuccess ? free : 0;
}

absl::StatusOr<Memory> Memory::Allocate(Place place, size_t bytes) {
  Memory memory;
  memory.place_ = place;
  if (bytes == 0) return memory;
  const bool on_device = place == Place::kDevice;
  const cudaError_t error = on_device ? cudaMalloc(&memory.data_, bytes)
                                      : cudaHostAlloc(&memory.data_, bytes, cudaHostAllocDefault);
  if (error != cudaSuccess) {
    // Clears the error, because later calls of the CUDA runtime would return the same error again
    (void)cudaGetLastError();
    memory.data_ = nullptr;
    if (error != cudaErrorMemoryAllocation) return Failure(error, "allocating memory");
    return OutOfMemory(place, bytes);
  }
  memory.bytes_ = bytes;
  if (!on_device) {
    std::memset(memory.data_, 0, bytes);
    return memory;
  }
  INCIPIT_RETURN_IF_ERROR(Failure(cudaMemset(memory.data_, 0, bytes), "clearing memory"));
  // Waits for cudaMemset, because our streams do not wait for the default stream on which
  // cudaMemset runs.
  INCIPIT_RETURN_IF_ERROR(Failure(cudaDeviceSynchronize(), "clearing memory"));
  return memory;
}

void Memory::Release() {
  if (data_ == nullptr) return;
  // Ignores errors: when the process exits, the CUDA runtime may already have released the device.
  (void)(place_ == Place::kDevice ? cudaFree(data_) : cudaFreeHost(data_));
  data_ = nullptr;
}

struct Stream::State {
  cudaStream_t handle = nullptr;
  cudaError_t error = cudaSuccess;
  ~State() {
    if (handle != nullptr) (void)cudaStreamDestroy(handle);
  }
};

void Note(Stream& stream, int error) {
  cudaError_t& first = stream.state().error;
  if (first == cudaSuccess) first = static_cast<cudaError_t>(error);
}

void* HandleOf(Stream& stream) { return stream.state().handle; }

bool MayStartEarly() {
  static const bool may = std::getenv("INCIPIT_CUDA_IN_ORDER") == nullptr;
  return may;
}

Stream::Stream(std::unique_ptr<State> state) : state_(std::move(state)) {}
Stream::~Stream() = default;
Stream::Stream(Stream&&) noexcept = default;
Stream& Stream::operator=(Stream&&) noexcept = default;

absl::StatusOr<Stream> Stream::Create() {
  auto state = std::make_unique<State>();
  INCIPIT_RETURN_IF_ERROR(Failure(cudaStreamCreateWithFlags(&state->handle, cudaStreamNonBlocking),
                                  "creating a CUDA stream"));
  return Stream(std::move(state));
}

void Stream::Copy(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  Note(*this, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, state_->handle));
}

void Stream::CopyRows(const Rows& rows) {
  if (rows.row_bytes == 0 || rows.num_rows == 0) return;
  if (std::max(rows.to_stride, rows.from_stride) <= kStrideMax) {
    return Note(
        *this, cudaMemcpy2DAsync(rows.to, rows.to_stride, rows.from, rows.from_stride,
                                 rows.row_bytes, rows.num_rows, cudaMemcpyDefault, state_->handle));
  }
  for (size_t i = 0; i < rows.num_rows; ++i) {
    Copy(static_cast<char*>(rows.to) + i * rows.to_stride,
         static_cast<const char*>(rows.from) + i * rows.from_stride, rows.row_bytes);
  }
}

void Stream::Clear(void* device, size_t bytes) {
  if (bytes == 0) return;
  Note(*this, cudaMemsetAsync(device, 0, bytes, state_->handle));
}

absl::Status Stream::Wait() {
  Note(*this, cudaStreamSynchronize(state_->handle));
  return Failure(state_->error, "the device");
}

struct Event::State {
  cudaEvent_t handle = nullptr;
  Stream* stream = nullptr;
  ~State() {
    if (handle != nullptr) (void)cudaEventDestroy(handle);
  }
};

Event::Event(std::unique_ptr<State> state) : state_(std::move(state)) {}
Event::~Event() = default;
Event::Event(Event&&) noexcept = default;
Event& Event::operator=(Event&&) noexcept = default;

absl::StatusOr<Event> Event::Create() {
  auto state = std::make_unique<State>();
  INCIPIT_RETURN_IF_ERROR(Failure(cudaEventCreateWithFlags(&state->handle, cudaEventDisableTiming),
                                  "creating a CUDA event"));
  return Event(std::move(state));
}

void Event::Record(Stream& stream) {
  state_->stream = &stream;
  Note(stream, cudaEventRecord(state_->handle, stream.state().handle));
}

absl::Status Event::Wait() {
  if (state_->stream == nullptr) return absl::OkStatus();
  Note(*state_->stream, cudaEventSynchronize(state_->handle));
  return Failure(state_->stream->state().error, "the device");
}

struct Graph::State {
  cudaGraphExec_t handle = nullptr;
  ~State() {
    if (handle != nullptr) (void)cudaGraphExecDestroy(handle);
  }
};

Graph::Graph(std::unique_ptr<State> state) : state_(std::move(state)) {}
Graph::~Graph() = default;
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;

void Graph::Begin(Stream& stream) {
  Note(stream, cudaStreamBeginCapture(stream.state().handle, cudaStreamCaptureModeThreadLocal));
}

absl::StatusOr<Graph> Graph::End(Stream& stream) {
  cudaGraph_t recorded = nullptr;
  INCIPIT_RETURN_IF_ERROR(
      Failure(cudaStreamEndCapture(stream.state().handle, &recorded), "recording a CUDA graph"));
  auto state = std::make_unique<State>();
  const cudaError_t error = cudaGraphInstantiate(&state->handle, recorded, 0);
  (void)cudaGraphDestroy(recorded);
  INCIPIT_RETURN_IF_ERROR(Failure(error, "creating a CUDA graph"));
  return Graph(std::move(state));
}

void Graph::Launch(Stream& stream) {
  Note(stream, cudaGraphLaunch(state_->handle, stream.state().handle));
}

}  // namespace incipit::cuda
