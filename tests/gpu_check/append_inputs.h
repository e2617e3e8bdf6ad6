// Additional inputs of a product that appends keys and values
// (kernels/cuda/device/product/append_rows.h). The inputs are a step of one sequence on consecutive
// pages, and the rotations of the sequence's positions.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "base/status.h"
#include "kernels/cuda/device/product/append_rows.h"
#include "tests/gpu_check/device_bench.h"

namespace incipit::cuda {

class AppendInputs {
 public:
  static constexpr int32_t kPageSize = 16;

  static absl::StatusOr<AppendInputs> Make(DeviceBench& bench, int32_t num_tokens) {
    AppendInputs inputs(static_cast<int32_t>(bench.Size(128, 16)));
    INCIPIT_RETURN_IF_ERROR(inputs.MakeStep(bench, num_tokens));
    INCIPIT_RETURN_IF_ERROR(inputs.MakeRope(bench, num_tokens));
    return inputs;
  }

  // Returns the number of bf16 outputs (queries, keys and values) of a product with a weight of
  // `weight_rows` rows. The number of tokens is rounded up to whole pages.
  static int64_t NumOutputs(int64_t weight_rows, int64_t num_tokens) {
    return (num_tokens + kPageSize - 1) / kPageSize * kPageSize * weight_rows;
  }
  // Returns the arguments of a product that writes its outputs to `out`. One sixth of the heads are
  // key heads, one sixth are value heads, and the others are query heads.
  AppendArgs Into(void* out, int32_t weight_rows, int64_t num_tokens) const {
    const int32_t num_kv_heads = weight_rows / head_dim_ / 6;
    const int32_t num_heads = weight_rows / head_dim_ - 2 * num_kv_heads;
    auto* const query = static_cast<dev::bf16*>(out);
    return {.step = step_.as<StepHeader>(),
            .rope = rope_.as<float>(),
            .query = query,
            .pool = query + num_tokens * num_heads * head_dim_,
            .layout = {.page_size = kPageSize, .num_kv_heads = num_kv_heads, .head_dim = head_dim_},
            .num_heads = num_heads};
  }

 private:
  explicit AppendInputs(int32_t head_dim) : head_dim_(head_dim) {}

  absl::Status MakeStep(DeviceBench& bench, int32_t num_tokens) {
    const size_t bytes =
        sizeof(StepRow) * (1 + static_cast<size_t>(num_tokens)) + sizeof(StepHeader);
    INCIPIT_ASSIGN_OR_RETURN(step_, Memory::Allocate(Place::kDevice, bytes));
    INCIPIT_ASSIGN_OR_RETURN(const Memory pinned, Memory::Allocate(Place::kPinned, bytes));
    constexpr auto kRowsAt =
        static_cast<int32_t>((sizeof(StepHeader) / sizeof(StepRow) + 1) * sizeof(StepRow));
    *pinned.as<StepHeader>() = {.num_tokens = num_tokens, .rows = kRowsAt};
    auto* const rows = reinterpret_cast<StepRow*>(pinned.as<char>() + kRowsAt);
    for (int32_t i = 0; i < num_tokens; ++i) rows[i] = {.position = i, .slot = i};
    bench.stream().Copy(step_.data(), pinned.data(), bytes);
    return bench.stream().Wait();
  }

  // Builds the table of cosines and sines. A rotation keeps the magnitude of a head, so one
  // tolerance fits all heads.
  absl::Status MakeRope(DeviceBench& bench, int32_t num_tokens) {
    const auto half = static_cast<size_t>(head_dim_ / 2);
    const size_t bytes = static_cast<size_t>(num_tokens) * 2 * half * sizeof(float);
    INCIPIT_ASSIGN_OR_RETURN(rope_, Memory::Allocate(Place::kDevice, bytes));
    INCIPIT_ASSIGN_OR_RETURN(const Memory pinned, Memory::Allocate(Place::kPinned, bytes));
    float* angles = pinned.as<float>();
    for (int32_t position = 0; position < num_tokens; ++position, angles += 2 * half) {
      for (size_t i = 0; i < half; ++i) {
        const double exponent = static_cast<double>(i) / static_cast<double>(half);
        const double angle = position * std::pow(10'000.0, -exponent);
        angles[i] = static_cast<float>(std::cos(angle));
        angles[half + i] = static_cast<float>(std::sin(angle));
      }
    }
    bench.stream().Copy(rope_.data(), pinned.data(), bytes);
    return bench.stream().Wait();
  }

  int32_t head_dim_;
  Memory step_, rope_;
};

}  // namespace incipit::cuda
