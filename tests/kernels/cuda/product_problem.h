// A matrix product of random bf16 numbers, and its exact result in double precision.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/cuda/device/product/product.h"
#include "kernels/cuda/host/packed_weight.h"
#include "kernels/emulator/run.h"
#include "kernels/numeric.h"

namespace incipit::cuda {

inline std::vector<uint16_t> RandomBF16(std::mt19937& random, size_t count, float scale) {
  std::normal_distribution<float> normal(0, scale);
  std::vector<uint16_t> values(count);
  for (uint16_t& value : values) value = NarrowBF16(normal(random));
  return values;
}

inline std::vector<float> RandomF32(std::mt19937& random, size_t count, float scale = 1) {
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

inline dev::bf16* DeviceBF16(std::vector<uint16_t>& values) {
  return reinterpret_cast<dev::bf16*>(values.data());
}

struct ProductShape {
  // `rows`: rows of x. `columns`: columns of x and of the weight. `width`: rows of the weight.
  int rows = 0, columns = 0, width = 0;
  RowOrder order = RowOrder::kPlain;
  int head_dim = 0;  // size of a head; used only with kRotary
};

class ProductProblem {
 public:
  explicit ProductProblem(const ProductShape& shape, uint32_t seed = 1) : shape_(shape) {
    std::mt19937 random(seed);
    const auto columns = static_cast<size_t>(shape.columns);
    x_ = RandomBF16(random, static_cast<size_t>(shape.rows) * columns, 1);
    weight_ = RandomBF16(random, static_cast<size_t>(shape.width) * columns, 0.1F);
    bias_ = RandomF32(random, static_cast<size_t>(shape.width));
    const ConstTensorView view = {weight_.data(), DType::kBF16, shape.width, shape.columns};
    const UnpackedWeight unpacked = {{&view, 1}, shape.order, shape.head_dim};
    packed_.resize(static_cast<size_t>(unpacked.packed_bytes() / 2));
    PackUnits(unpacked, 0, packed_);
    num_rows_ = shape.rows;
    num_units_ = static_cast<int>(unpacked.num_units());
  }

  const ProductShape& shape() const { return shape_; }
  int num_units() const { return num_units_; }
  std::vector<uint16_t>& x() { return x_; }
  std::vector<float>& bias() { return bias_; }
  void SetRows(int num_rows) { num_rows_ = num_rows; }

  // Returns the product's input with the current values of x.
  ProductInput input() {
    device_x_.resize((x_.size() + 15) / 16);
    std::memcpy(device_x_.data(), x_.data(), x_.size() * sizeof(uint16_t));
    return {.num_rows = &num_rows_,
            .x = reinterpret_cast<const dev::bf16*>(device_x_.data()),
            .weight = DeviceBF16(packed_),
            .columns = shape_.columns,
            .num_units = num_units_};
  }

  double Exact(int row, int column) const {
    double sum = 0;
    for (int k = 0; k < shape_.columns; ++k) sum += Term(row, column, k);
    return sum;
  }
  // Returns the largest allowed error of the f32 sum for the element (row, column) of the result.
  double Tolerance(int row, int column) const {
    double sum = 0;
    for (int k = 0; k < shape_.columns; ++k) sum += std::abs(Term(row, column, k));
    return 1e-6 * sum + 1e-6;
  }

 private:
  double Term(int row, int column, int k) const {
    const auto columns = static_cast<size_t>(shape_.columns), at = static_cast<size_t>(k);
    return static_cast<double>(WidenBF16(x_[static_cast<size_t>(row) * columns + at])) *
           static_cast<double>(WidenBF16(weight_[static_cast<size_t>(column) * columns + at]));
  }

  struct alignas(32) Sector {
    uint16_t values[16];
  };

  ProductShape shape_;
  std::vector<Sector> device_x_;  // copy of `x_`, aligned like device memory
  std::vector<uint16_t> x_, weight_, packed_;
  std::vector<float> bias_;
  int32_t num_rows_ = 0;
  int num_units_ = 0;
};

struct ProductRun {
  // Number of thread blocks. For a kernel with clusters: number of clusters.
  int num_blocks = 3;
  uint64_t seed = 1;
  bool count_accesses = false;
};

// Runs a product on the emulator. A `Kernel` that consists of several kernels has its own function
// Report.
template <class Kernel>
emulator::Report ReportOfProduct(const ProductRun& run, const ProductInput& input,
                                 const typename Kernel::Epilogue::Args& epilogue) {
  if constexpr (requires { Kernel::Report(run, input, epilogue); }) {
    return Kernel::Report(run, input, epilogue);
  } else {
    const typename Kernel::Args args = {input, epilogue};
    emulator::RunOptions options = {
        .num_blocks = run.num_blocks, .seed = run.seed, .count_accesses = run.count_accesses};
    if constexpr (requires { Kernel::kCluster; }) {
      options.cluster = Kernel::kCluster;
      options.num_blocks *= Kernel::kCluster;
    }
    return emulator::Run<Kernel>(options, args);
  }
}

// Runs a product on the emulator. Returns the fault that the emulator found, or an empty string.
template <class Kernel>
std::string RunProduct(const ProductRun& run, const ProductInput& input,
                       const typename Kernel::Epilogue::Args& epilogue) {
  return ReportOfProduct<Kernel>(run, input, epilogue).fault;
}

}  // namespace incipit::cuda
