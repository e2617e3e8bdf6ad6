// What the emulated device has a library do on the host, in a stream's order.
#pragma once

#include <cstddef>
#include <functional>

#include "absl/status/status.h"
#include "kernels/cuda/runtime/runtime.h"

namespace incipit::cuda {

// Runs when what was enqueued before it has run; an error becomes the stream's.
void EnqueueCall(Stream& stream, std::function<absl::Status()> call);

}  // namespace incipit::cuda

namespace incipit::emulator {

// Whether all of it lies in one piece of memory that is allocated now.
bool IsAllocated(const void* data, size_t bytes);

}  // namespace incipit::emulator
