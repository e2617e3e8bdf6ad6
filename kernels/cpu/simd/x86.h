// Declares, for each x86 instruction set, a function that returns a table of pointers to the inner
// loops of the CPU backend.
#pragma once

#include "kernels/cpu/simd/kernels.h"

namespace incipit::simd {

const Kernels& Avx2Kernels();
const Kernels& Avx512Kernels();
const Kernels& Avx512VnniKernels();
const Kernels& Avx512Bf16Kernels();
const Kernels& AmxKernels();

inline constexpr int kNumTiles = 8;  // number of tile registers of AMX
// Layout of the operand of the AMX instruction ldtilecfg: the sizes of the tile registers.
struct alignas(64) TileConfiguration {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

}  // namespace incipit::simd
