// What this machine can do at most: multiply-adds per second by type, and bytes per second from
// memory that no cache holds. What a kernel reaches is compared with that.
#pragma once

#include <string>

#include "kernels/backend.h"

namespace incipit {

struct MachineRates {
  std::string cpu;  // as the system names it; may be empty
  std::string isa;  // of the inner loops: "avx512", "avx2", "portable"
  int32_t num_threads = 0;
  // Operations per second of all threads; a multiply-add is two. 0: there is no instruction for it.
  // That of dots of bf16 is known wherever the machine has them, in a set of AVX-512 or not.
  double f32 = 0, bf16 = 0, int8 = 0;
  double read_bytes = 0;  // per second, of all threads
};

// Of the threads and the instruction set that a backend with these options has. Takes about half a
// second. Neighbours lower the result, nothing raises it: of several calls the largest is true.
MachineRates MeasureMachineRates(const CpuOptions& options);

// The larger of each rate.
MachineRates LargerRates(const MachineRates& one, const MachineRates& other);

}  // namespace incipit
