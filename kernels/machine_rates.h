// Declares the maximum speed of a machine: arithmetic operations per second for each number type,
// and bytes read from main memory per second. Benchmarks report the speed of a kernel as a share of
// this maximum.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

namespace incipit {

struct MachineRates {
  std::string cpu;  // name of the processor; empty if unknown
  std::string isa;  // name of the instruction set that was measured, for example "avx2"
  int32_t num_threads = 0;
  // Arithmetic operations per second of all threads together, for each number type. A multiply-add
  // counts as two operations. 0: the machine has no instruction for the number type.
  double f32 = 0, bf16 = 0, int8 = 0;
  double read_bytes = 0;  // bytes per second that all threads together read from main memory
};

// Returns, for each rate, the larger of the two measured values. Other programs on the machine can
// only lower a measured rate, so the larger value is more accurate.
inline MachineRates LargerRates(const MachineRates& one, const MachineRates& other) {
  MachineRates larger = one;
  larger.f32 = std::max(one.f32, other.f32);
  larger.bf16 = std::max(one.bf16, other.bf16);
  larger.int8 = std::max(one.int8, other.int8);
  larger.read_bytes = std::max(one.read_bytes, other.read_bytes);
  return larger;
}

}  // namespace incipit
