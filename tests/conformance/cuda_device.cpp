// The CUDA backend on this machine's card.
#include <algorithm>
#include <cstdio>
#include <string>

#include "base/check.h"
#include "tests/conformance/host_view_backend.h"
#include "tests/conformance/support.h"

namespace incipit {
namespace {

// Whether a row among more than 64, whose products another tensor instruction adds up, has the bits
// that it has alone. A card may or may not; the emulated device does.
bool AddsUpAlike(Backend& backend, int32_t rows, int32_t outputs) {
  constexpr int32_t kInputs = 1104;
  RandomNumbers numbers(3);
  const Tensor matrix = Tensor::Random(DType::kBF16, outputs, kInputs, numbers);
  const Tensor x = Tensor::Random(DType::kF32, rows, kInputs, numbers);
  const auto weight = Pack(backend, {&matrix}, WeightRole::kOutput);
  const auto multiply = [&](int32_t count) {
    const auto step = PlainStep(count);
    Tensor input(DType::kF32, count, kInputs), hidden(DType::kF32, count, outputs);
    for (int32_t r = 0; r < count; ++r) std::ranges::copy(x.Row(r), input.Row(r).begin());
    backend.Upload(step->inputs());
    backend.ProjectAdd(
        {.x = input.view(), .weight = weight.get(), .bias = nullptr, .hidden = hidden.view()});
    INCIPIT_CHECK(backend.Synchronize().ok());
    return hidden;
  };
  const Tensor few = multiply(8), many = multiply(rows);
  for (int32_t r = 0; r < few.rows(); ++r) {
    if (!std::ranges::equal(few.Row(r), many.Row(r))) return false;
  }
  return true;
}

}  // namespace

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
  if (!backend.ok()) {
    device.unavailable = std::string(backend.status().message());
    return {device};
  }
  // In small tiles, and in large ones.
  device.keeps_rows_apart = AddsUpAlike(*create(1), 70, 64) && AddsUpAlike(*create(1), 1024, 4096);
  std::printf("Up to 64 rows and more than 64 add up %s on this card.\n",
              device.keeps_rows_apart ? "alike" : "differently");
  return {device};
}

}  // namespace incipit
