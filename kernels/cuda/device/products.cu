// Compiles the matrix-product kernels for the GPU architecture of this build.
#include "kernels/cuda/device/product/append_rows.h"
#include "kernels/cuda/host/launch_product.h"
#include "kernels/cuda/runtime/launch.h"

namespace incipit::cuda {

#define INCIPIT_PRODUCT(Epilogue)                                                               \
  template void Launch<SkinnyProduct<SkinnyShape<8, Epilogue>>>(Stream&, const LaunchShape&,    \
                                                                const ProductArgs<Epilogue>&);  \
  template void Launch<SkinnyProduct<SkinnyShape<16, Epilogue>>>(Stream&, const LaunchShape&,   \
                                                                 const ProductArgs<Epilogue>&); \
  template void Launch<SkinnyProduct<SkinnyShape<32, Epilogue>>>(Stream&, const LaunchShape&,   \
                                                                 const ProductArgs<Epilogue>&); \
  template void Launch<SkinnyProduct<SkinnyShape<64, Epilogue>>>(Stream&, const LaunchShape&,   \
                                                                 const ProductArgs<Epilogue>&); \
  template void Launch<TiledProduct<LargeTiles<Epilogue>>>(Stream&, const LaunchShape&,         \
                                                           const ProductArgs<Epilogue>&);       \
  template void Launch<TiledProduct<SmallTiles<Epilogue>>>(Stream&, const LaunchShape&,         \
                                                           const ProductArgs<Epilogue>&)

INCIPIT_PRODUCT(StoreRows<float>);
INCIPIT_PRODUCT(AppendRows);
INCIPIT_PRODUCT(AddToHidden);
INCIPIT_PRODUCT(SiluGate);
INCIPIT_PRODUCT(StoreLogits);

#undef INCIPIT_PRODUCT

}  // namespace incipit::cuda
