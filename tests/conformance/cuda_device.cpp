// Runs the conformance tests with the CUDA backend on the graphics card of this machine.
#include <algorithm>
#include <cstdio>
#include <string>

#include "base/check.h"
#include "kernels/cuda/cuda_options.h"
#include "tests/conformance/host_view_backend.h"
#include "tests/conformance/support.h"

namespace incipit {
namespace {

// Returns true if a row of a product has the same bits in a batch of 8 rows and in a batch of
// `rows` rows. Products of more than 64 rows use other tensor instructions. On a card, these
// instructions may sum in another order. On the emulated device, the bits are always equal.
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
    step->UploadTo(backend);
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

BackendCase CardCase() {
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
  auto backend = CreateCudaBackend({});
  if (!backend.ok()) {
    device.unavailable = std::string(backend.status().message());
    return device;
  }
  HostViewBackend host_view(*std::move(backend));
  // Products of 70 rows use the small tiles of the product kernel, and products of 1024 rows use
  // the large tiles.
  device.keeps_rows_apart = AddsUpAlike(host_view, 70, 64) && AddsUpAlike(host_view, 1024, 4096);
  // gpu_check reports the lines that start with "[ LIMITED  ]".
  std::printf("[ LIMITED  ] a row among more than 64 rows has %s a row alone on this card\n",
              device.keeps_rows_apart ? "the same bits as" : "other bits than");
  return device;
}

}  // namespace

// Every test suite calls DeviceBackends, so the card is opened only once.
std::vector<BackendCase> DeviceBackends() {
  static const auto* const card = new BackendCase(CardCase());
  return {*card};
}

}  // namespace incipit
