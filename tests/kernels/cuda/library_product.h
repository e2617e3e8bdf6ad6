// Emulates a product by a library such as cuBLASLt. A kernel unpacks the weight, the host computes
// the sums, and a kernel applies the epilogue to 8 rows at a time.
#pragma once

#include <algorithm>
#include <vector>

#include "kernels/cuda/device/product/finish_product.h"
#include "kernels/cuda/device/product/unpack_weight.h"
#include "tests/kernels/cuda/product_problem.h"

namespace incipit::cuda {

// Returns the f32 sums of the product, as a matrix [rows, outputs]. Rows from `*input.num_rows` on
// are NaN.
inline std::vector<float> SumsOf(const ProductInput& input, const std::vector<Vec4>& unpacked,
                                 int64_t rows) {
  const int64_t outputs = int64_t{input.num_units} * kUnitRows, columns = input.columns;
  const auto* const weight = reinterpret_cast<const dev::bf16*>(unpacked.data());
  std::vector<float> sums(static_cast<size_t>(rows * outputs),
                          std::numeric_limits<float>::quiet_NaN());
  for (int64_t row = 0; row < std::min<int64_t>(rows, *input.num_rows); ++row) {
    for (int64_t output = 0; output < outputs; ++output) {
      float sum = 0;
      for (int64_t k = 0; k < columns; ++k) {
        sum +=
            dev::ToFloat(input.x[row * columns + k]) * dev::ToFloat(weight[output * columns + k]);
      }
      sums[static_cast<size_t>(row * outputs + output)] = sum;
    }
  }
  return sums;
}

inline std::vector<Vec4> Unpacked(const ProductInput& input, emulator::Report& report) {
  const auto elements = static_cast<size_t>(input.num_units * kUnitRows * input.columns);
  std::vector<Vec4> out(elements / UnpackWeight::kChunkElements, Vec4{{~0U, ~0U, ~0U, ~0U}});
  report = emulator::Run<UnpackWeight>({.num_blocks = 2},
                                       {.weight = input.weight,
                                        .num_units = input.num_units,
                                        .columns = input.columns,
                                        .out = reinterpret_cast<dev::bf16*>(out.data())});
  return out;
}

template <class E>
struct LibraryProduct {
  using Epilogue = E;
  static emulator::Report Report(const ProductRun& run, const ProductInput& input,
                                 const typename Epilogue::Args& epilogue) {
    emulator::Report report;
    const std::vector<Vec4> weight = Unpacked(input, report);
    constexpr int32_t kRowsAtOnce = 8;
    const int32_t rows = (*input.num_rows + kRowsAtOnce) / kRowsAtOnce * kRowsAtOnce;
    const std::vector<float> all = SumsOf(input, weight, rows);
    const auto slab = static_cast<size_t>(kRowsAtOnce * input.num_units * kUnitRows);
    for (int32_t row = 0; row < rows && report.fault.empty(); row += kRowsAtOnce) {
      std::vector<Vec4> sums(slab / 4);
      std::memcpy(sums.data(), &all[static_cast<size_t>(row / kRowsAtOnce) * slab],
                  slab * sizeof(float));
      report = emulator::Run<FinishProduct<Epilogue>>(
          {.num_blocks = run.num_blocks, .seed = run.seed, .count_accesses = run.count_accesses},
          {.product = {input, epilogue},
           .sums = reinterpret_cast<const float*>(sums.data()),
           .first_row = row,
           .max_rows = kRowsAtOnce});
    }
    return report;
  }
};

}  // namespace incipit::cuda
