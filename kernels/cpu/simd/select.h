// Finds the instruction sets that this machine supports.
#pragma once

#include <span>

#include "kernels/cpu/simd/kernels.h"

namespace incipit::simd {

// Returns the tables of inner loops that this machine can run, the fastest table first. The last
// table is the portable table.
std::span<const Kernels* const> SupportedKernels();

// Returns true if this machine has AVX-512 and the bf16 dot instruction.
bool HasBF16Dots();

}  // namespace incipit::simd
