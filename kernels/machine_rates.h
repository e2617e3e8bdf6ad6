// The highest rates of a machine: multiply-adds per second by type, and bytes per second from
// memory that no cache holds. The rates that a kernel reaches are compared with them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

namespace incipit {

struct MachineRates {
  std::string cpu;  // the processor's name; may be empty
  std::string isa;  // instruction set of the inner loops
  int32_t num_threads = 0;
  // Operations per second of all threads; a multiply-add is two. 0: there is no instruction for the
  // type. The rate of bf16 is known if the machine has an instruction for it, even if the inner
  // loops do not use it.
  double f32 = 0, bf16 = 0, int8 = 0;
  double read_bytes = 0;  // per second, of all threads
};

// Returns the larger of each rate. Neighbours lower a measurement and nothing raises it: of several
// ones the largest is true.
inline MachineRates LargerRates(const MachineRates& one, const MachineRates& other) {
  MachineRates larger = one;
  larger.f32 = std::max(one.f32, other.f32);
  larger.bf16 = std::max(one.bf16, other.bf16);
  larger.int8 = std::max(one.int8, other.int8);
  larger.read_bytes = std::max(one.read_bytes, other.read_bytes);
  return larger;
}

}  // namespace incipit
