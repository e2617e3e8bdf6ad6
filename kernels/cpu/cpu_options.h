// Options of the CPU backend and the function that creates the backend.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace incipit {

struct CpuOptions {
  int32_t num_threads = 0;   // 0: the number of CPUs that this process may use
  bool pin_threads = false;  // binds each thread to a CPU of its own
  std::string isa = {};  // instruction set of the inner loops; empty: the fastest of the machine
};
// Creates a CPU backend. Returns INVALID_ARGUMENT, with the instruction sets that the machine
// supports, if the machine does not support `options.isa`.
absl::StatusOr<std::unique_ptr<Backend>> CreateCpuBackend(const CpuOptions& options);

}  // namespace incipit
