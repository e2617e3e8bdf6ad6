// The CUDA backend on this machine's card.
#include <algorithm>
#include <cstdio>
#include <string>

#include "base/check.h"
#include "kernels/cuda/cuda_options.h"
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
  // In small tiles, and in large ones.
  device.keeps_rows_apart = AddsUpAlike(host_view, 70, 64) && AddsUpAlike(host_view, 1024, 4096);
  // gpu_check keeps lines that begin so.
  std::printf("[ LIMITED  ] a row among more than 64 has %s alone on this card\n",
              device.keeps_rows_apart ? "the bits that it has" : "other bits than");
  return device;
}

}  // namespace

// Asked for by every suite of tests.
std::vector<BackendCase> DeviceBackends() {
  static const auto* const card = new BackendCase(CardCase());
  return {*card};
}

}  // namespace incipit
