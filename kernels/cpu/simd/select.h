// Finds the instruction sets that this machine supports.
#pragma once

#include <span>

#include "kernels/cpu/simd/kernels.h"

namespace incipit::simd {

// Returns the tables of inner loops that this machine can run, the fastest table first. The last
// table is the portable table.
std::span<const Kernels* const> SupportedKernels();

// The number types whose dot products this machine computes with one instruction. The comment of
// each type names the instruction set.
struct NativeProducts {
  bool f32 = false;   // with AVX-512
  bool bf16 = false;  // with AVX512_BF16
  bool int8 = false;  // with AVX512_VNNI
};
NativeProducts DetectNativeProducts();

// Returns true if `kernels` uses the bf16 dot instruction. If true, oneDNN computes the matrix
// products of all types for which the machine has native instructions.
bool PrefersOneDnn(const Kernels& kernels);

}  // namespace incipit::simd
