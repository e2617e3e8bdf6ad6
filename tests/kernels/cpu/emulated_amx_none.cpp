#include "tests/kernels/cpu/emulated_amx.h"

namespace incipit::simd {

const Kernels* EmulatedAmxKernels() { return nullptr; }

}  // namespace incipit::simd
