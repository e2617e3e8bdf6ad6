#include "tests/kernels/cpu/emulated_dots.h"

namespace incipit::simd {

const Kernels* EmulatedDotKernels() { return nullptr; }

}  // namespace incipit::simd
