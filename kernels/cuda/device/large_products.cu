// Compiles kernels UnpackWeight and FinishProduct for the GPU architecture of this build.
// UnpackWeight runs before a cuBLASLt product, FinishProduct runs after the product.
#include "kernels/cuda/device/product/append_rows.h"
#include "kernels/cuda/device/product/finish_product.h"
#include "kernels/cuda/device/product/unpack_weight.h"
#include "kernels/cuda/runtime/launch.h"

namespace incipit::cuda {

template void Launch<UnpackWeight>(Stream&, const LaunchShape&, const UnpackWeight::Args&);

#define INCIPIT_FINISH(Epilogue)                                             \
  template void Launch<FinishProduct<Epilogue>>(Stream&, const LaunchShape&, \
                                                const FinishProduct<Epilogue>::Args&)

INCIPIT_FINISH(StoreRows<float>);
INCIPIT_FINISH(AppendRows);
INCIPIT_FINISH(AddToHidden);
INCIPIT_FINISH(SiluGate);

#undef INCIPIT_FINISH

}  // namespace incipit::cuda
