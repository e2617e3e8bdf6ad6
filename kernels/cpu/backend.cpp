#include "kernels/backend.h"

#include "kernels/reference/backend.h"

namespace incipit {

absl::StatusOr<std::unique_ptr<Backend>> CreateCpuBackend(const CpuOptions& options) {
  return reference::CreateBackend(options.memory_limit_bytes);
}

}  // namespace incipit
