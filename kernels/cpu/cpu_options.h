// How to get a Backend on the CPU.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace incipit {

struct CpuOptions {
  int32_t num_threads = 0;   // 0: the CPUs that this process may use
  bool pin_threads = false;  // each to a CPU of its own
  std::string isa = {};      // instruction set of the inner loops; empty: the machine's best
};
// Creates a backend. INVALID_ARGUMENT names what this machine has, if it has no such instruction
// set.
absl::StatusOr<std::unique_ptr<Backend>> CreateCpuBackend(const CpuOptions& options);

}  // namespace incipit
