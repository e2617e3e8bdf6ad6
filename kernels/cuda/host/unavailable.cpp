// Defines CreateCudaBackend for builds without CUDA: the function always returns an error.
#include "base/status.h"
#include "kernels/cuda/cuda_options.h"

namespace incipit {

absl::StatusOr<std::unique_ptr<Backend>> CreateCudaBackend(const CudaOptions& options) {
  return Unimplemented(
      "CUDA device {} was requested, but this program was built without CUDA; use --backend cpu, "
      "or a build configured with -DINCIPIT_CUDA=ON",
      options.device);
}

}  // namespace incipit
