// Runs the conformance tests with the CUDA backend on the emulated device. An emulated product
// library, in place of cuBLASLt, computes all products of at least 2 rows.
#include "base/check.h"
#include "kernels/cuda/cuda_options.h"
#include "tests/conformance/host_view_backend.h"
#include "tests/conformance/support.h"

namespace incipit {

std::vector<BackendCase> DeviceBackends() {
  return {{.name = "CudaEmulatedLibrary",
           .create = [](int32_t) -> std::unique_ptr<Backend> {
             auto backend = CreateCudaBackend(
                 {.large_products = LargeProducts::kLibrary, .large_rows_min = 2});
             INCIPIT_CHECK(backend.ok());
             return std::make_unique<HostViewBackend>(*std::move(backend));
           },
           .rounds_weights = true,
           .has_threads = false,
           .keeps_rows_apart = false}};
}

}  // namespace incipit
