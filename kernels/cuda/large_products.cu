// What surrounds a library's products, for the machine that this file is compiled for.
#include "kernels/cuda/append_rows.h"
#include "kernels/cuda/finish_product.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/unpack_weight.h"

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
