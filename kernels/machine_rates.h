// The highest rates that a machine reaches: operations per second for each number type, and bytes
// per second read from main memory. Benchmarks report the rates of kernels as a share of these
// rates.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

namespace incipit {

struct MachineRates {
  std::string cpu;  // name of the processor; may be empty
  std::string isa;  // instruction set of the inner loops
  int32_t num_threads = 0;
  // Operations per second of all threads together; one multiply-add counts as two operations. 0:
  // the machine has no instruction for the type. `bf16` is measured if the machine has an
  // instruction for bf16, even if the inner loops do not use that instruction.
  double f32 = 0, bf16 = 0, int8 = 0;
  double read_bytes = 0;  // bytes per second from main memory, of all threads together
};

// Returns the larger value of each rate. Other programs on the machine can only lower a measured
// rate, so the largest of several measurements is the most accurate.
inline MachineRates LargerRates(const MachineRates& one, const MachineRates& other) {
  MachineRates larger = one;
  larger.f32 = std::max(one.f32, other.f32);
  larger.bf16 = std::max(one.bf16, other.bf16);
  larger.int8 = std::max(one.int8, other.int8);
  larger.read_bytes = std::max(one.read_bytes, other.read_bytes);
  return larger;
}

}  // namespace incipit
