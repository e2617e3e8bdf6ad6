// How to get a Backend on the CPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace incipit {

// The implementation of the matrix products: oneDNN where it is the fastest, or one of the two
// everywhere.
enum class CpuMatmul : uint8_t { kAuto, kOneDnn, kSimd };

struct CpuOptions {
  int32_t num_threads = 0;        // 0: the CPUs that this process may use
  bool pin_threads = false;       // each to a CPU of its own
  size_t memory_limit_bytes = 0;  // 0: what the machine or the cgroup has left
  CpuMatmul matmul = CpuMatmul::kAuto;
  std::string isa = {};  // instruction set of the inner loops; empty: the machine's best
};
// Creates a backend. INVALID_ARGUMENT names what this machine has, if it has no such instruction
// set.
absl::StatusOr<std::unique_ptr<Backend>> CreateCpuBackend(const CpuOptions& options);

}  // namespace incipit
