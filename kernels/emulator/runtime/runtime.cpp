// Implements the CUDA runtime functions of kernels/cuda/runtime/runtime.h on the CPU. Enqueued
// operations run only when the caller waits for the stream or an event. A caller that changes or
// frees memory too early therefore gets a wrong result or an error.
#include "kernels/cuda/runtime/runtime.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/mutex.h"
#include "base/status.h"
#include "kernels/emulator/runtime/device_memory.h"
#include "kernels/emulator/runtime/graph_counts.h"
#include "kernels/emulator/runtime/host_call.h"
#include "kernels/emulator/runtime/launch.h"

namespace incipit::cuda {
namespace {

constexpr int kNumSms = 4;
// Races are detected only in every 8th call of RunKernels(), because the detection is slow.
constexpr uint64_t kRunsForRaces = 8;
constexpr size_t kAlignment = 1024;

// Returns the initial memory size of the emulated device, in bytes.
size_t BytesAtFirst() {
  const char* const said = std::getenv("INCIPIT_EMULATED_DEVICE_BYTES");
  return said == nullptr ? size_t{4} << 30 : std::strtoull(said, nullptr, 10);
}

std::atomic<bool> is_broken_by_test = false;

// Returns true if all kernels must fail: after BreakDevice(true), or if the environment variable
// INCIPIT_EMULATED_FAULT_FILE names a file that exists.
bool IsBroken() {
  static const char* const file = std::getenv("INCIPIT_EMULATED_FAULT_FILE");
  std::error_code ignored;
  return is_broken_by_test || (file != nullptr && std::filesystem::exists(file, ignored));
}

std::atomic<int64_t> num_recorded = 0, num_launched = 0, num_copies = 0, bytes_copied = 0;

// Counts the launches of each kernel.
class Launches {
 public:
  static Launches& Get() {
    static Launches* const launches = new Launches;
    return *launches;
  }
  void Add(const char* kernel) {
    MutexLock lock(mutex_);
    ++counts_[kernel];
  }
  int64_t Count(std::string_view kernel) {
    MutexLock lock(mutex_);
    int64_t count = 0;
    for (const auto& [name, launches] : counts_) {
      if (name.find(kernel) != std::string_view::npos) count += launches;
    }
    return count;
  }

 private:
  Mutex mutex_;
  std::map<std::string_view, int64_t> counts_ ABSL_GUARDED_BY(mutex_);
};

// The ranges of device memory and of pinned host memory that are currently allocated.
class Allocations {
 public:
  static Allocations& Get() {
    // This object is never destroyed, because destructors of other static objects may free memory.
    static Allocations* const allocations = new Allocations;
    return *allocations;
  }

  // Allocates `bytes` bytes that are all zero. Returns null if the memory of the device is full.
  void* Add(Place place, size_t bytes) {
    MutexLock lock(mutex_);
    ++num_added_;
    if (place == Place::kDevice && bytes > device_limit_ - std::min(device_limit_, device_bytes_)) {
      return nullptr;
    }
    void* const base = std::calloc(bytes + kAlignment, 1);
    if (base == nullptr) return nullptr;
    void* data = base;
    size_t space = bytes + kAlignment;
    std::align(kAlignment, bytes, data, space);
    if (place == Place::kDevice) device_bytes_ += bytes;
    blocks_[static_cast<const char*>(data)] = {base, bytes, place};
    return data;
  }
  void Remove(const void* data) {
    MutexLock lock(mutex_);
    const auto found = blocks_.find(static_cast<const char*>(data));
    INCIPIT_CHECK(found != blocks_.end());
    if (found->second.place == Place::kDevice) device_bytes_ -= found->second.bytes;
    std::free(found->second.base);
    blocks_.erase(found);
  }
  bool Holds(const void* data, size_t bytes) {
    MutexLock lock(mutex_);
    const auto* const begin = static_cast<const char*>(data);
    auto found = blocks_.upper_bound(begin);
    if (found == blocks_.begin()) return false;
    --found;
    return begin + bytes <= found->first + found->second.bytes;
  }
  emulator::LiveMemory Live() {
    MutexLock lock(mutex_);
    std::vector<emulator::LiveMemory::Range> ranges;
    for (const auto& [data, block] : blocks_) ranges.push_back({data, data + block.bytes});
    return emulator::LiveMemory(std::move(ranges));
  }
  size_t free_bytes() {
    MutexLock lock(mutex_);
    return device_limit_ - std::min(device_limit_, device_bytes_);
  }
  int64_t num_added() {
    MutexLock lock(mutex_);
    return num_added_;
  }
  size_t limit() {
    MutexLock lock(mutex_);
    return device_limit_;
  }
  void SetLimit(size_t bytes) {
    MutexLock lock(mutex_);
    device_limit_ = bytes;
  }

 private:
  struct Block {
    void* base = nullptr;
    size_t bytes = 0;
    Place place = Place::kDevice;
  };
  Mutex mutex_;
  std::map<const char*, Block> blocks_ ABSL_GUARDED_BY(mutex_);
  size_t device_bytes_ ABSL_GUARDED_BY(mutex_) = 0, device_limit_
                                                    ABSL_GUARDED_BY(mutex_) = BytesAtFirst();
  int64_t num_added_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace
}  // namespace incipit::cuda

namespace incipit::emulator {

int64_t NumAllocations() { return cuda::Allocations::Get().num_added(); }
int64_t NumCopies() { return cuda::num_copies; }
int64_t BytesCopied() { return cuda::bytes_copied; }
bool IsAllocated(const void* data, size_t bytes) {
  return cuda::Allocations::Get().Holds(data, bytes);
}
void BreakDevice(bool is_broken) { cuda::is_broken_by_test = is_broken; }

void SetDeviceBytes(size_t bytes) { cuda::Allocations::Get().SetLimit(bytes); }
size_t DeviceBytes() { return cuda::Allocations::Get().limit(); }
int64_t LaunchesOf(std::string_view kernel) { return cuda::Launches::Get().Count(kernel); }
GraphCounts CountsOfGraphs() {
  return {.recorded = cuda::num_recorded, .launched = cuda::num_launched};
}

}  // namespace incipit::emulator

namespace incipit::cuda {

absl::StatusOr<DeviceProperties> OpenDevice(int32_t ordinal, bool /*loads_all*/) {
  if (ordinal != 0)
    return Unavailable("CUDA device {} does not exist; the emulator has only device 0", ordinal);
  return DeviceProperties{.name = "host emulator",
                          .software = "sm_90a",
                          .num_sms = kNumSms,
                          .memory_bytes = emulator::DeviceBytes(),
                          .l2_bytes = size_t{50} << 20};
}

size_t FreeDeviceBytes() { return Allocations::Get().free_bytes(); }

absl::StatusOr<Memory> Memory::Allocate(Place place, size_t bytes) {
  Memory memory;
  memory.place_ = place;
  if (bytes == 0) return memory;
  memory.data_ = Allocations::Get().Add(place, bytes);
  if (memory.data_ == nullptr) {
    return OutOfMemory(place, bytes);
  }
  memory.bytes_ = bytes;
  return memory;
}

void Memory::Release() {
  if (data_ == nullptr) return;
  Allocations::Get().Remove(data_);
  data_ = nullptr;
}

// One enqueued operation of a stream: a copy, a memset, a kernel or a CPU function.
struct Operation {
  enum class Kind : uint8_t { kCopy, kClear, kKernel, kCall } kind = Kind::kCopy;
  void* to = nullptr;
  const void* from = nullptr;
  size_t bytes = 0;
  emulator::KernelLaunch kernel = {};
  std::vector<std::byte> args = {};
  std::function<absl::Status()> call = {};
};

struct Stream::State {
  std::vector<Operation> queue, recorded;
  bool is_recording = false;
  // Random seed for the next call of RunKernels(). Increases by 1 with each call.
  uint64_t seed = 1;
  absl::Status status;

  void Enqueue(Operation operation) {
    (is_recording ? recorded : queue).push_back(std::move(operation));
  }
  void Run();
  void RunCopy(const Operation& operation);
};

void Stream::State::RunCopy(const Operation& operation) {
  const bool is_copy = operation.kind == Operation::Kind::kCopy;
  Allocations& live = Allocations::Get();
  if (!live.Holds(operation.to, operation.bytes) ||
      (is_copy && !live.Holds(operation.from, operation.bytes))) {
    status = Internal("a copy of {} bytes reads or writes memory that is not allocated",
                      operation.bytes);
    return;
  }
  if (is_copy) {
    std::memmove(operation.to, operation.from, operation.bytes);
    ++num_copies;
    bytes_copied += static_cast<int64_t>(operation.bytes);
  } else {
    std::memset(operation.to, 0, operation.bytes);
  }
}

// Runs all enqueued operations of the stream, in order.
void Stream::State::Run() {
  std::vector<Operation> operations = std::exchange(queue, {});
  for (size_t i = 0; i < operations.size() && status.ok();) {
    if (operations[i].kind == Operation::Kind::kCall) {
      status = operations[i++].call();
      continue;
    }
    if (operations[i].kind != Operation::Kind::kKernel) {
      RunCopy(operations[i++]);
      continue;
    }
    if (IsBroken()) {
      status = Internal("the emulated GPU has failed");
      return;
    }
    std::vector<emulator::KernelLaunch> chain;
    do {
      chain.push_back(operations[i].kernel);
      chain.back().args = operations[i++].args.data();
    } while (i < operations.size() && operations[i].kind == Operation::Kind::kKernel &&
             operations[i].kernel.dependent);
    for (const emulator::KernelLaunch& launch : chain) Launches::Get().Add(launch.code.name);
    const bool find_races = seed % kRunsForRaces == 1;
    emulator::LiveMemory memory = Allocations::Get().Live();
    const emulator::Report report = emulator::RunKernels(
        {.num_sms = kNumSms, .seed = seed++, .find_races = find_races, .memory = &memory}, chain);
    if (!report.fault.empty())
      status = Internal("a kernel failed on the emulated device: {}", report.fault);
  }
}

Stream::Stream(std::unique_ptr<State> state) : state_(std::move(state)) {}
Stream::~Stream() = default;
Stream::Stream(Stream&&) noexcept = default;
Stream& Stream::operator=(Stream&&) noexcept = default;

absl::StatusOr<Stream> Stream::Create() { return Stream(std::make_unique<State>()); }

void Stream::Copy(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  state_->Enqueue({.kind = Operation::Kind::kCopy, .to = to, .from = from, .bytes = bytes});
}

void Stream::CopyRows(const Rows& rows) {
  for (size_t i = 0; i < rows.num_rows; ++i) {
    Copy(static_cast<char*>(rows.to) + i * rows.to_stride,
         static_cast<const char*>(rows.from) + i * rows.from_stride, rows.row_bytes);
  }
}

void Stream::Clear(void* device, size_t bytes) {
  if (bytes == 0) return;
  state_->Enqueue({.kind = Operation::Kind::kClear, .to = device, .bytes = bytes});
}

absl::Status Stream::Wait() {
  state_->Run();
  return state_->status;
}

void Enqueue(Stream& stream, const emulator::KernelLaunch& launch) {
  const auto* const args = static_cast<const std::byte*>(launch.args);
  stream.state().Enqueue({.kind = Operation::Kind::kKernel,
                          .kernel = launch,
                          .args = {args, args + launch.args_bytes}});
}

void EnqueueCall(Stream& stream, std::function<absl::Status()> call) {
  stream.state().Enqueue({.kind = Operation::Kind::kCall, .call = std::move(call)});
}

struct Event::State {
  Stream::State* stream = nullptr;
};

Event::Event(std::unique_ptr<State> state) : state_(std::move(state)) {}
Event::~Event() = default;
Event::Event(Event&&) noexcept = default;
Event& Event::operator=(Event&&) noexcept = default;

absl::StatusOr<Event> Event::Create() { return Event(std::make_unique<State>()); }

void Event::Record(Stream& stream) { state_->stream = &stream.state(); }

// Waits for all operations that were enqueued before the call of Record(). Also runs operations
// that were enqueued later, as a GPU may do.
absl::Status Event::Wait() {
  if (state_->stream == nullptr) return absl::OkStatus();
  state_->stream->Run();
  return state_->stream->status;
}

struct Graph::State {
  std::vector<Operation> operations;
};

Graph::Graph(std::unique_ptr<State> state) : state_(std::move(state)) {}
Graph::~Graph() = default;
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;

void Graph::Begin(Stream& stream) {
  INCIPIT_CHECK(!stream.state().is_recording);
  stream.state().is_recording = true;
}

absl::StatusOr<Graph> Graph::End(Stream& stream) {
  INCIPIT_CHECK(stream.state().is_recording);
  stream.state().is_recording = false;
  auto state = std::make_unique<State>();
  state->operations = std::exchange(stream.state().recorded, {});
  ++num_recorded;
  return Graph(std::move(state));
}

void Graph::Launch(Stream& stream) {
  ++num_launched;
  for (const Operation& operation : state_->operations) stream.state().Enqueue(operation);
}

}  // namespace incipit::cuda
