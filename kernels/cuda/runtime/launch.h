// Implements Launch, which launches a kernel on a stream. Include this header only in files that
// instantiate Launch.
#pragma once

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/runtime/runtime.h"

#ifndef __CUDACC__
#include "kernels/emulator/runtime/launch.h"
#else

#include <cuda_runtime.h>

#include <vector>

namespace incipit::cuda {

// The __global__ function that runs `Kernel`. tools/cuda_gates.py reads the template arguments from
// the symbol name.
template <class Kernel, int kThreads = Kernel::kThreads, int kSharedBytes = Kernel::kSharedBytes,
          int kBlocksPerSm = Kernel::kBlocksPerSm>
__global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    Entry(const __grid_constant__ typename Kernel::Args args) {
  Kernel::Run(args);
}

// Returns the list of all kernels of this program. OpenDevice loads these kernels.
std::vector<const void*>& Entries();
template <class Kernel>
struct Listed {
  Listed() { Entries().push_back(reinterpret_cast<const void*>(&Entry<Kernel>)); }
  static const Listed kOne;
};
template <class Kernel>
const Listed<Kernel> Listed<Kernel>::kOne;

// Stores `error` as the error of `stream`, unless an earlier error is stored.
void Note(Stream& stream, int error);
void* HandleOf(Stream& stream);
// Returns true if a kernel may start before the previous kernel has ended. Returns false if
// INCIPIT_CUDA_IN_ORDER, an environment variable for debugging, is set.
bool MayStartEarly();

template <class Kernel>
void Launch(Stream& stream, const LaunchShape& shape, const typename Kernel::Args& args) {
  static_assert(sizeof(typename Kernel::Args) <= 4096);
  static_cast<void>(Listed<Kernel>::kOne);
  // All kernels request the same (maximum) size of shared memory on a multiprocessor. Kernels with
  // different sizes could not run on a multiprocessor at the same time.
  static const cudaError_t prepared = [] {
    const auto error = cudaFuncSetAttribute(
        Entry<Kernel>, cudaFuncAttributeMaxDynamicSharedMemorySize, Kernel::kSharedBytes);
    if (error != cudaSuccess) return error;
    return cudaFuncSetAttribute(Entry<Kernel>, cudaFuncAttributePreferredSharedMemoryCarveout,
                                cudaSharedmemCarveoutMaxShared);
  }();
  if (prepared != cudaSuccess) return Note(stream, prepared);
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(shape.num_blocks));
  config.blockDim = dim3(Kernel::kThreads);
  config.dynamicSmemBytes = Kernel::kSharedBytes;
  config.stream = static_cast<cudaStream_t>(HandleOf(stream));
  cudaLaunchAttribute attributes[2];
  config.attrs = attributes;
  if (shape.cluster > 1) {
    attributes[config.numAttrs].id = cudaLaunchAttributeClusterDimension;
    attributes[config.numAttrs++].val.clusterDim = {static_cast<unsigned>(shape.cluster), 1, 1};
  }
  if (shape.dependent && MayStartEarly()) {
    attributes[config.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[config.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
  }
  Note(stream, cudaLaunchKernelEx(&config, Entry<Kernel>, args));
}

}  // namespace incipit::cuda

#endif
