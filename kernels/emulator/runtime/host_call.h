// Declares functions for emulated GPU libraries: run a CPU function in a stream, and check that
// memory is allocated.
#pragma once

#include <cstddef>
#include <functional>

#include "absl/status/status.h"
#include "kernels/cuda/runtime/runtime.h"

namespace incipit::cuda {

// Enqueues the CPU function `call` on `stream`. If `call` fails, later calls of Stream::Wait()
// return its error.
void EnqueueCall(Stream& stream, std::function<absl::Status()> call);

}  // namespace incipit::cuda

namespace incipit::emulator {

// Returns true if the `bytes` bytes at `data` are within one allocation of the emulated device.
bool IsAllocated(const void* data, size_t bytes);

}  // namespace incipit::emulator
