// Which product kernel serves how many rows.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/product.h"
#include "kernels/cuda/runtime.h"
#include "kernels/cuda/skinny_product.h"
#include "kernels/cuda/tiled_product.h"

namespace incipit::cuda {

template <int kTokens, class Epilogue>
void LaunchSkinny(Stream& stream, int32_t num_sms, const ProductArgs<Epilogue>& args) {
  using Kernel = SkinnyProduct<SkinnyShape<kTokens, Epilogue>>;
  constexpr int32_t kCluster = Kernel::kCluster;
  const int32_t units = (args.input.num_units + kCluster - 1) / kCluster * kCluster;
  const int32_t num_blocks = std::max(kCluster, std::min(units, num_sms / kCluster * kCluster));
  Launch<Kernel>(stream, {.num_blocks = num_blocks, .cluster = kCluster, .dependent = true}, args);
}

template <class Epilogue>
using TiledKernel = TiledProduct<TiledShape<128, Epilogue>>;

template <class Epilogue>
int32_t TiledBlocks(int32_t num_sms, int64_t rows_max, int32_t num_units) {
  using Kernel = TiledKernel<Epilogue>;
  const int64_t tiles =
      ((rows_max - 1) / Kernel::kTokenTile + 1) * ((num_units - 1) / Kernel::kUnits + 1);
  return static_cast<int32_t>(
      std::clamp<int64_t>(tiles, 1, int64_t{num_sms} * Kernel::kBlocksPerSm));
}

// Of `totals`, for products of so many rows.
template <class Epilogue>
size_t TotalsBytes(int32_t num_sms, int64_t rows_max, int32_t num_units) {
  if (rows_max <= 64) return 0;
  return size_t{TiledKernel<Epilogue>::kTotalsPerBlock} * sizeof(float) *
         static_cast<size_t>(TiledBlocks<Epilogue>(num_sms, rows_max, num_units));
}

// `rows_max`: at least the rows that *num_rows says when the kernel runs.
template <class Epilogue>
void LaunchProduct(Stream& stream, int32_t num_sms, int64_t rows_max,
                   const ProductArgs<Epilogue>& args, float* totals) {
  if (rows_max <= 8) return LaunchSkinny<8, Epilogue>(stream, num_sms, args);
  if (rows_max <= 16) return LaunchSkinny<16, Epilogue>(stream, num_sms, args);
  if (rows_max <= 32) return LaunchSkinny<32, Epilogue>(stream, num_sms, args);
  if (rows_max <= 64) return LaunchSkinny<64, Epilogue>(stream, num_sms, args);
  Launch<TiledKernel<Epilogue>>(
      stream,
      {.num_blocks = TiledBlocks<Epilogue>(num_sms, rows_max, args.input.num_units),
       .dependent = true},
      {.input = args.input, .epilogue = args.epilogue, .totals = totals});
}

}  // namespace incipit::cuda
