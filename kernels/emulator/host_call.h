// Runs host functions in the order of a stream. Emulated libraries use these functions.
#pragma once

#include <cstddef>
#include <functional>

#include "absl/status/status.h"
#include "kernels/cuda/runtime/runtime.h"

namespace incipit::cuda {

// Enqueues `call` on `stream`, so that `call` runs after all earlier operations. If `call` returns
// an error, the error becomes the status of the stream.
void EnqueueCall(Stream& stream, std::function<absl::Status()> call);

}  // namespace incipit::cuda

namespace incipit::emulator {

// Returns true if one allocation of the emulated device holds all `bytes` bytes from `data` on.
bool IsAllocated(const void* data, size_t bytes);

}  // namespace incipit::emulator
