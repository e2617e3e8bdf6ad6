// Calls of host functions in the order of a stream, for libraries on the emulated device.
#pragma once

#include <cstddef>
#include <functional>

#include "absl/status/status.h"
#include "kernels/cuda/runtime/runtime.h"

namespace incipit::cuda {

// Calls `call` after all earlier operations of the stream. An error becomes the status of the
// stream.
void EnqueueCall(Stream& stream, std::function<absl::Status()> call);

}  // namespace incipit::cuda

namespace incipit::emulator {

// Returns true if all bytes are in one piece of currently allocated memory.
bool IsAllocated(const void* data, size_t bytes);

}  // namespace incipit::emulator
