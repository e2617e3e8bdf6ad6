// Options of the CPU backend and the function that creates the backend.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace incipit {

struct CpuOptions {
  int32_t num_threads = 0;   // number of threads; 0: the number of CPUs that this process may use
  bool pin_threads = false;  // true: each thread is bound to one CPU
  // Name of the instruction set of the inner loops; empty: the fastest instruction set that the
  // machine supports.
  std::string isa = {};
};
// Creates a CPU backend. Returns INVALID_ARGUMENT if the machine does not support `options.isa`;
// the message lists the supported instruction sets.
absl::StatusOr<std::unique_ptr<Backend>> CreateCpuBackend(const CpuOptions& options);

}  // namespace incipit
