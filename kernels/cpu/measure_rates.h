// Measures the rates of the CPU: multiplications and bytes read per second.
#pragma once

#include "kernels/cpu/simd/kernels.h"
#include "kernels/cpu/threads.h"
#include "kernels/machine_rates.h"

namespace incipit {

// Measures the rates of all `threads` together, in operations per second and in bytes read per
// second, with the instruction set of `kernels`.
MachineRates MeasureCpuRates(const simd::Kernels& kernels, const Threads& threads);

}  // namespace incipit
