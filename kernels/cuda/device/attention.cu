// Compiles the kernels that read or write stored keys and values, for the GPU architecture of this
// build.
#include "kernels/cuda/device/attention/append.h"
#include "kernels/cuda/device/attention/attention_step.h"
#include "kernels/cuda/device/attention/decode_attention.h"
#include "kernels/cuda/device/attention/prefill_attention.h"
#include "kernels/cuda/device/attention/simple_attention.h"
#include "kernels/cuda/device/copy_pages.h"
#include "kernels/cuda/runtime/launch.h"

namespace incipit::cuda {

template void Launch<Append<float>>(Stream&, const LaunchShape&, const AppendArgs&);
template void Launch<SimpleAttention>(Stream&, const LaunchShape&, const PagedAttentionArgs&);
template void Launch<CopyPages<CopyPagesShape>>(Stream&, const LaunchShape&,
                                                const CopyPages<CopyPagesShape>::Args&);

#define INCIPIT_ATTENTION(dims, page)                                                             \
  template void Launch<DecodeAttention<AttentionShape<dims, page>>>(Stream&, const LaunchShape&,  \
                                                                    const PagedAttentionArgs&);   \
  template void Launch<PrefillAttention<AttentionShape<dims, page>>>(Stream&, const LaunchShape&, \
                                                                     const PagedAttentionArgs&)

INCIPIT_ATTENTION(64, 16);
INCIPIT_ATTENTION(64, 32);
INCIPIT_ATTENTION(64, 64);
INCIPIT_ATTENTION(128, 16);
INCIPIT_ATTENTION(128, 32);
INCIPIT_ATTENTION(128, 64);

#undef INCIPIT_ATTENTION

}  // namespace incipit::cuda
