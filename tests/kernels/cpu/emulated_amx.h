// AVX2 kernels of the CPU backend whose matrix products use emulated tile instructions of AMX.
// Tests thereby run the product of the matrix unit on a machine without AMX.
#pragma once

#include "kernels/cpu/simd/kernels.h"

namespace incipit::simd {

// Returns null if this machine has no AVX2.
const Kernels* EmulatedAmxKernels();

}  // namespace incipit::simd
