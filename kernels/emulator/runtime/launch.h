// Declares functions that launch a kernel on the emulated device.
#pragma once

#include "kernels/cuda/runtime/runtime.h"
#include "kernels/emulator/run.h"

namespace incipit::cuda {

// Enqueues the kernel `launch.code` on `stream`. Copies the arguments `launch.args` of the kernel.
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
