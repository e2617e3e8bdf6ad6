// Declares functions that launch a kernel on the emulated device. A launch copies the arguments of
// the kernel and enqueues the kernel on a stream.
#pragma once

#include "kernels/cuda/runtime/runtime.h"
#include "kernels/emulator/run.h"

namespace incipit::cuda {

// Enqueues the kernel `launch.code` on `stream`. The arguments at `launch.args` are copied.
void Enqueue(Stream& stream, const emulator::KernelLaunch& launch);

template <class Kernel>
void Launch(Stream& stream, const LaunchShape& shape, const typename Kernel::Args& args) {
  Enqueue(stream, {.code = emulator::CodeOf<Kernel>(__PRETTY_FUNCTION__),
                   .args = &args,
                   .args_bytes = sizeof(args),
                   .num_blocks = shape.num_blocks,
                   .cluster = shape.cluster,
                   .dependent = shape.dependent});
}

}  // namespace incipit::cuda
