// Declares functions for emulated libraries: to run a host function on a stream, and to check an
// address range.
#pragma once

#include <cstddef>
#include <functional>

#include "absl/status/status.h"
#include "kernels/cuda/runtime/runtime.h"

namespace incipit::cuda {

// Enqueues the host function `call` on `stream`. The function runs after all operations that were
// enqueued earlier. If `call` returns an error, later waits for the stream return this error.
void EnqueueCall(Stream& stream, std::function<absl::Status()> call);

}  // namespace incipit::cuda

namespace incipit::emulator {

// Returns true if the `bytes` bytes at `data` are within one allocation of the emulated device.
bool IsAllocated(const void* data, size_t bytes);

}  // namespace incipit::emulator
