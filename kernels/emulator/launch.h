// Launches on the emulated device: enqueues a kernel with a copy of its arguments on a stream.
#pragma once

#include "kernels/cuda/runtime/runtime.h"
#include "kernels/emulator/run.h"

namespace incipit::cuda {

// Enqueues a kernel. Copies the arguments at launch.args.
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
