// Measures MachineRates of the CPU.
#pragma once

#include "kernels/cpu/simd/kernels.h"
#include "kernels/cpu/threads.h"
#include "kernels/machine_rates.h"

namespace incipit {

// Measures the rates of `threads` with the instruction set of `kernels`.
MachineRates MeasureCpuRates(const simd::Kernels& kernels, const Threads& threads);

}  // namespace incipit
