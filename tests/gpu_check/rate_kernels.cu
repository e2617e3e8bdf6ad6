// Compiles the kernels of the measurements, for a card or for the emulated device.
#include "kernels/cuda/runtime/launch.h"
#include "tests/gpu_check/rate_kernels.h"

namespace incipit::cuda {

template void Launch<FillRandom>(Stream&, const LaunchShape&, const FillRandom::Args&);
template void Launch<ReadAll>(Stream&, const LaunchShape&, const ReadAll::Args&);
template void Launch<MultiplyAgain>(Stream&, const LaunchShape&, const MultiplyAgain::Args&);

}  // namespace incipit::cuda
