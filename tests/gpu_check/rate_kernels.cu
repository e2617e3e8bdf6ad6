// The kernels of the measurements, for the machine that this file is compiled for.
#include "kernels/cuda/runtime/launch.h"
#include "tests/gpu_check/rate_kernels.h"

namespace incipit::cuda {

template void Launch<FillRandom>(Stream&, const LaunchShape&, const FillRandom::Args&);
template void Launch<ReadAll>(Stream&, const LaunchShape&, const ReadAll::Args&);
template void Launch<MultiplyAgain>(Stream&, const LaunchShape&, const MultiplyAgain::Args&);

}  // namespace incipit::cuda
