// Compiles the kernels Embed, Norm, PadRows, Sample and Score for the GPU architecture of this
// build.
#include "kernels/cuda/device/embed.h"
#include "kernels/cuda/device/norm.h"
#include "kernels/cuda/device/pad_rows.h"
#include "kernels/cuda/device/sampling/sample.h"
#include "kernels/cuda/device/sampling/score.h"
#include "kernels/cuda/runtime/launch.h"

namespace incipit::cuda {

template void Launch<Embed<EmbedShape>>(Stream&, const LaunchShape&,
                                        const Embed<EmbedShape>::Args&);
template void Launch<Norm<NormShape>>(Stream&, const LaunchShape&, const Norm<NormShape>::Args&);
template void Launch<PadRows>(Stream&, const LaunchShape&, const PadRows::Args&);
template void Launch<Sample<SampleShape>>(Stream&, const LaunchShape&,
                                          const Sample<SampleShape>::Args&);
template void Launch<Score<SampleShape>>(Stream&, const LaunchShape&,
                                         const Score<SampleShape>::Args&);

}  // namespace incipit::cuda
