// The CUDA backend on this machine's card.
#include <string>

#include "tests/conformance/host_view_backend.h"
#include "tests/conformance/support.h"

namespace incipit {

std::vector<BackendCase> DeviceBackends() {
  const auto create = [](int32_t) -> std::unique_ptr<Backend> {
    auto backend = CreateCudaBackend({});
    if (!backend.ok()) return nullptr;
    return std::make_unique<HostViewBackend>(*std::move(backend));
  };
  BackendCase device = {.name = "Cuda",
                        .create = create,
                        .rounds_weights = true,
                        .has_threads = false,
                        .is_card = true};
  const auto backend = CreateCudaBackend({});
  if (!backend.ok()) device.unavailable = std::string(backend.status().message());
  return {device};
}

}  // namespace incipit
