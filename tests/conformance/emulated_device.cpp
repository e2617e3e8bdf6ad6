// Runs the conformance tests with the CUDA backend on the emulated device.
#include "base/check.h"
#include "kernels/cuda/cuda_options.h"
#include "tests/conformance/host_view_backend.h"
#include "tests/conformance/support.h"

namespace incipit {

std::vector<BackendCase> DeviceBackends() {
  return {{.name = "CudaEmulated",
           .create = [](int32_t) -> std::unique_ptr<Backend> {
             auto backend = CreateCudaBackend({});
             INCIPIT_CHECK(backend.ok());
             return std::make_unique<HostViewBackend>(*std::move(backend));
           },
           .rounds_weights = true,
           .has_threads = false}};
}

}  // namespace incipit
