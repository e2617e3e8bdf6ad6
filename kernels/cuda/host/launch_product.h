// Selects a matrix-product kernel by the number of input rows, and launches the kernel.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/device/product/product.h"
#include "kernels/cuda/device/product/skinny_product.h"
#include "kernels/cuda/device/product/tiled_product.h"
#include "kernels/cuda/runtime/runtime.h"

namespace incipit::cuda {

// Maximum number of rows of the input that kernel SkinnyProduct can multiply.
constexpr int64_t kSkinnyRowsMax = 64;

template <int kTokens, class Epilogue>
void LaunchSkinny(Stream& stream, int32_t num_sms, const ProductArgs<Epilogue>& args) {
  using Kernel = SkinnyProduct<SkinnyShape<kTokens, Epilogue>>;
  constexpr int32_t kCluster = Kernel::kCluster;
  const int32_t units = (args.input.num_units + kCluster - 1) / kCluster * kCluster;
  const int32_t num_blocks = std::max(kCluster, std::min(units, num_sms / kCluster * kCluster));
  Launch<Kernel>(stream, {.num_blocks = num_blocks, .cluster = kCluster, .dependent = true}, args);
}

template <class Shape>
int64_t TilesOf(int64_t rows, int64_t num_units) {
  using Kernel = TiledProduct<Shape>;
  return ((rows - 1) / Kernel::kTokenTile + 1) * ((num_units - 1) / Kernel::kUnits + 1);
}

// Estimates the clock cycles that kernel TiledProduct needs for 64 columns of the two matrices that
// the kernel multiplies. The result is the largest of three estimates: for arithmetic, for
// shared-memory traffic and for L2 cache traffic.
template <class Shape>
int64_t TiledClocks(int64_t num_sms, int64_t rows, int64_t num_units) {
  using Kernel = TiledProduct<Shape>;
  constexpr int64_t kProductsPerClock = 2048, kSharedBytesPerClock = 128, kL2BytesPerClock = 32;
  constexpr int64_t kProducts = int64_t{Kernel::kUnits} * kUnitRows * Kernel::kTokenTile * 64;
  constexpr int64_t kReadBytes = Kernel::kWeightBytes + Kernel::kGroups * Kernel::kXBytes;
  constexpr int64_t kTileClocks = std::max(
      kProducts / kProductsPerClock, (Kernel::kStageBytes + kReadBytes) / kSharedBytesPerClock);
  const int64_t tiles = TilesOf<Shape>(rows, num_units);
  return std::max((tiles + num_sms - 1) / num_sms * kTileClocks,
                  tiles * Kernel::kStageBytes / (kL2BytesPerClock * num_sms));
}

template <class Shape>
void LaunchTiled(Stream& stream, int32_t num_sms, int64_t rows_max,
                 const typename TiledProduct<Shape>::Args& args) {
  using Kernel = TiledProduct<Shape>;
  const int64_t tiles = TilesOf<Shape>(rows_max, args.input.num_units);
  const int64_t most = int64_t{num_sms} * Kernel::kBlocksPerSm;
  Launch<Kernel>(
      stream, {.num_blocks = static_cast<int32_t>(std::min(tiles, most)), .dependent = true}, args);
}

// Launches the matrix-product kernel for at most `rows_max` input rows. REQUIRES: when the kernel
// runs, *args.input.num_rows in device memory is at most `rows_max`.
template <class Epilogue>
void LaunchProduct(Stream& stream, int32_t num_sms, int64_t rows_max,
                   const ProductArgs<Epilogue>& args) {
  if (rows_max <= 8) return LaunchSkinny<8, Epilogue>(stream, num_sms, args);
  if (rows_max <= 16) return LaunchSkinny<16, Epilogue>(stream, num_sms, args);
  if (rows_max <= 32) return LaunchSkinny<32, Epilogue>(stream, num_sms, args);
  if (rows_max <= kSkinnyRowsMax) return LaunchSkinny<64, Epilogue>(stream, num_sms, args);
  using Large = LargeTiles<Epilogue>;
  using Small = SmallTiles<Epilogue>;
  const int32_t units = args.input.num_units;
  if (TiledClocks<Large>(num_sms, rows_max, units) <=
      TiledClocks<Small>(num_sms, rows_max, units)) {
    return LaunchTiled<Large>(stream, num_sms, rows_max, args);
  }
  LaunchTiled<Small>(stream, num_sms, rows_max, args);
}

}  // namespace incipit::cuda
