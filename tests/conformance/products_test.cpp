// Tests matrix products, and the operations that are fused with products, on every backend of the
// build.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/backend.h"
#include "kernels/numeric.h"
#include "tests/conformance/support.h"

namespace incipit {
namespace {

class ProductsTest : public ::testing::TestWithParam<BackendCase> {
 protected:
  void SetUp() override {
    if (!GetParam().unavailable.empty()) GTEST_SKIP() << GetParam().unavailable;
    backend_ = GetParam().create(2);
    reference_ = CreateReference();
  }

  std::unique_ptr<Backend> backend_, reference_;
  RandomNumbers numbers_{17};
};

constexpr DType kDTypes[] = {DType::kF32, DType::kF16, DType::kBF16};
// Tested numbers of rows: near the heights of register tiles, and above the number of rows that one
// pass of the kernel computes.
constexpr int32_t kRowCounts[] = {0, 1, 2, 3, 4, 5, 7, 12, 13, 17, 64, 100};
struct Shape {
  int64_t outputs, inputs;
};
constexpr Shape kShapes[] = {{1, 1},      {3, 5},   {16, 16},    {17, 33}, {64, 300},
                             {131, 1100}, {48, 72}, {136, 1104}, {64, 172}};

Tensor Project(Backend& backend, const Tensor& x, const Tensor& weight, const Tensor* bias,
               Tensor hidden) {
  const auto step = PlainStep(static_cast<int32_t>(x.rows()));
  const auto packed = Pack(backend, {&weight}, WeightRole::kOutput);
  const auto stored = bias != nullptr ? StoreVector(backend, *bias) : nullptr;
  Tensor input = x;
  step->UploadTo(backend);
  backend.ProjectAdd(
      {.x = input.view(), .weight = packed.get(), .bias = stored.get(), .hidden = hidden.view()});
  EXPECT_TRUE(backend.Synchronize().ok());
  return hidden;
}

TEST_P(ProductsTest, ProjectAddAgreesWithTheReference) {
  for (const DType dtype : kDTypes) {
    for (const auto [outputs, inputs] : kShapes) {
      if (!OffersWidth(*backend_, outputs) || !OffersWidth(*backend_, inputs)) continue;
      const Tensor weight = Tensor::Random(dtype, outputs, inputs, numbers_);
      const Tensor bias = Tensor::Random(dtype, 1, outputs, numbers_);
      for (const int32_t rows : kRowCounts) {
        SCOPED_TRACE(testing::Message()
                     << NameOf(dtype) << " " << rows << " x " << inputs << " x " << outputs);
        const Tensor x = Tensor::Random(DType::kF32, rows, inputs, numbers_);
        const Tensor hidden = Tensor::Random(DType::kF32, rows, outputs, numbers_);
        const Tensor* maybe_bias = rows % 2 == 0 ? &bias : nullptr;
        ExpectNear(Project(*backend_, x, weight, maybe_bias, hidden),
                   Project(*reference_, x, weight, maybe_bias, hidden),
                   ToleranceOf(GetParam(), dtype).products);
      }
    }
  }
}

Tensor ProjectInt8(Backend& backend, const Tensor& x, const Tensor& weight) {
  const auto step = PlainStep(static_cast<int32_t>(x.rows()));
  const auto packed = Pack(backend, {&weight}, WeightRole::kOutput, WeightFormat::kInt8);
  Tensor input = x, hidden(DType::kF32, x.rows(), weight.rows());
  step->UploadTo(backend);
  backend.ProjectAdd(
      {.x = input.view(), .weight = packed.get(), .bias = nullptr, .hidden = hidden.view()});
  EXPECT_TRUE(backend.Synchronize().ok());
  return hidden;
}

// 8-bit products add whole numbers, whose sum is the same in any order. The bits must therefore be
// equal.
TEST_P(ProductsTest, EightBitProductsHaveTheBitsOfTheReference) {
  if (!OffersInt8(*backend_)) GTEST_SKIP() << "this backend does not offer 8-bit weights";
  for (const DType dtype : kDTypes) {
    for (const auto [outputs, inputs] : kShapes) {
      const Tensor weight = Tensor::Random(dtype, outputs, inputs, numbers_);
      for (const int32_t rows : kRowCounts) {
        SCOPED_TRACE(testing::Message()
                     << NameOf(dtype) << " " << rows << " x " << inputs << " x " << outputs);
        const Tensor x = Tensor::Random(DType::kF32, rows, inputs, numbers_, 3);
        const Tensor actual = ProjectInt8(*backend_, x, weight);
        const Tensor expected = ProjectInt8(*reference_, x, weight);
        for (int64_t r = 0; r < rows; ++r) ExpectSameBits(actual.Row(r), expected.Row(r));
      }
    }
  }
}

TEST_P(ProductsTest, EightBitProductsReachTheirExtremesWithoutOverflow) {
  if (!OffersInt8(*backend_)) GTEST_SKIP() << "this backend does not offer 8-bit weights";
  const int64_t inputs = 16384;
  Tensor weight(DType::kF32, 3, inputs), x(DType::kF32, 2, inputs);
  for (int64_t k = 0; k < inputs; ++k) {
    weight.Set(0, k, 127);
    weight.Set(1, k, -127);
    weight.Set(2, k, k % 2 == 0 ? 127 : -127);
    x.Set(0, k, 127);
    x.Set(1, k, -127);
  }
  const Tensor actual = ProjectInt8(*backend_, x, weight);
  const float sum = 127.0f * 127 * 16384;
  EXPECT_EQ(actual.At(0, 0), sum);
  EXPECT_EQ(actual.At(0, 1), -sum);
  EXPECT_EQ(actual.At(0, 2), 0);
  EXPECT_EQ(actual.At(1, 0), -sum);
  EXPECT_EQ(actual.At(1, 1), sum);
}

TEST_P(ProductsTest, EightBitRowsOfZerosTinyAndNonFiniteNumbersStayWhatTheyAre) {
  if (!OffersInt8(*backend_)) GTEST_SKIP() << "this backend does not offer 8-bit weights";
  Tensor weight = Tensor::Random(DType::kF32, 20, 37, numbers_);
  for (int64_t k = 0; k < 37; ++k) weight.Set(3, k, 0);
  Tensor x = Tensor::Random(DType::kF32, 5, 37, numbers_);
  for (int64_t k = 0; k < 37; ++k) x.Set(1, k, 0);
  for (int64_t k = 0; k < 37; ++k) x.Set(2, k, 1e-38f);
  x.Set(3, 36, std::numeric_limits<float>::infinity());
  x.Set(4, 0, std::numeric_limits<float>::quiet_NaN());
  const Tensor y = ProjectInt8(*backend_, x, weight);
  EXPECT_EQ(y.At(0, 3), 0);
  EXPECT_NE(y.At(0, 4), 0);
  for (int64_t n = 0; n < 20; ++n) {
    EXPECT_EQ(y.At(1, n), 0);
    EXPECT_EQ(y.At(2, n), 0);
    EXPECT_TRUE(std::isnan(y.At(3, n)));
    EXPECT_TRUE(std::isnan(y.At(4, n)));
  }
}

TEST_P(ProductsTest, EightBitGateUpAgreesWithTheReference) {
  if (!OffersInt8(*backend_)) GTEST_SKIP() << "this backend does not offer 8-bit weights";
  for (const int64_t size : {1, 24, 100}) {
    const Tensor gate = Tensor::Random(DType::kBF16, size, 72, numbers_);
    const Tensor up = Tensor::Random(DType::kBF16, size, 72, numbers_);
    const Tensor norm = Tensor::Random(DType::kF32, 1, 72, numbers_);
    const Tensor bias = Tensor::Random(DType::kF32, 1, 2 * size, numbers_);
    for (const int32_t rows : {1, 3, 17, 64}) {
      SCOPED_TRACE(testing::Message() << rows << " rows, " << size);
      Tensor hidden = Tensor::Random(DType::kF32, rows, 72, numbers_);
      const auto run = [&](Backend& backend) {
        const auto step = PlainStep(rows);
        const auto weight = Pack(backend, {&gate, &up}, WeightRole::kGateUp, WeightFormat::kInt8);
        const auto norm_weight = StoreVector(backend, norm),
                   stored_bias = StoreVector(backend, bias);
        Tensor out(DType::kF32, rows, size);
        step->UploadTo(backend);
        backend.GateUpSilu({.hidden = hidden.view(),
                            .norm = {.weight = norm_weight.get(), .epsilon = 1e-5f},
                            .gate_up = weight.get(),
                            .bias = stored_bias.get(),
                            .out = out.view()});
        return out;
      };
      ExpectNear(run(*backend_), run(*reference_), kInt8NormTolerance);
    }
  }
}

TEST_P(ProductsTest, AnEightBitEmbeddingGivesTheRowsOfItsHead) {
  if (!OffersInt8(*backend_)) GTEST_SKIP() << "this backend does not offer 8-bit weights";
  const Tensor table = Tensor::Random(DType::kBF16, 37, 19, numbers_);
  const auto run = [&](Backend& backend) {
    const auto step = PlainStep(3);
    step->SetTokens({36, 0, 5});
    const auto weight = Pack(backend, {&table}, WeightRole::kEmbedding, WeightFormat::kInt8);
    Tensor hidden(DType::kF32, 3, 19);
    step->UploadTo(backend);
    backend.Embed({.table = weight.get(), .hidden = hidden.view()});
    return hidden;
  };
  const Tensor actual = run(*backend_), expected = run(*reference_);
  for (int64_t r = 0; r < 3; ++r) ExpectSameBits(actual.Row(r), expected.Row(r));
  // `unit` is 127 in column 7 and 0 elsewhere. Its product with the table is 127 times column 7 of
  // the table.
  Tensor unit(DType::kF32, 1, 19);
  unit.Set(0, 7, 127);
  const Tensor column = ProjectInt8(*backend_, unit, table);
  EXPECT_FLOAT_EQ(column.At(0, 36), actual.At(0, 7) * 127);
  EXPECT_FLOAT_EQ(column.At(0, 5), actual.At(2, 7) * 127);
}

TEST_P(ProductsTest, GateUpSiluAgreesWithTheReference) {
  const int64_t hidden_size = 72;
  for (const DType dtype : kDTypes) {
    for (const int64_t size : {1, 24, 100, 104}) {
      if (!OffersWidth(*backend_, size)) continue;
      const Tensor gate = Tensor::Random(dtype, size, hidden_size, numbers_);
      const Tensor up = Tensor::Random(dtype, size, hidden_size, numbers_);
      const Tensor norm = Tensor::Random(dtype, 1, hidden_size, numbers_);
      const Tensor bias = Tensor::Random(DType::kF32, 1, 2 * size, numbers_);
      for (const int32_t rows : kRowCounts) {
        SCOPED_TRACE(testing::Message() << NameOf(dtype) << " " << rows << " rows, " << size);
        Tensor hidden = Tensor::Random(DType::kF32, rows, hidden_size, numbers_);
        const auto run = [&](Backend& backend) {
          const auto step = PlainStep(rows);
          const auto weight = Pack(backend, {&gate, &up}, WeightRole::kGateUp);
          const auto norm_weight = StoreVector(backend, norm);
          const auto stored_bias = StoreVector(backend, bias);
          Tensor out(DType::kF32, rows, size);
          step->UploadTo(backend);
          backend.GateUpSilu({.hidden = hidden.view(),
                              .norm = {.weight = norm_weight.get(), .epsilon = 1e-5f},
                              .gate_up = weight.get(),
                              .bias = rows % 2 == 0 ? stored_bias.get() : nullptr,
                              .out = out.view()});
          EXPECT_TRUE(backend.Synchronize().ok());
          return out;
        };
        ExpectNear(run(*backend_), run(*reference_), ToleranceOf(GetParam(), dtype).products);
      }
    }
  }
}

TEST_P(ProductsTest, SiluSaturatesWithoutBecomingNonFinite) {
  // The gates are between -3e4 and 3e4, for which exp would overflow.
  const Tensor gate = Tensor::Random(DType::kF32, 40, 8, numbers_, 1e4f);
  const Tensor up = Tensor::Random(DType::kF32, 40, 8, numbers_);
  const Tensor norm = Tensor::Random(DType::kF32, 1, 8, numbers_);
  Tensor hidden = Tensor::Random(DType::kF32, 3, 8, numbers_);
  const auto run = [&](Backend& backend) {
    const auto step = PlainStep(3);
    const auto weight = Pack(backend, {&gate, &up}, WeightRole::kGateUp);
    const auto norm_weight = StoreVector(backend, norm);
    Tensor out(DType::kF32, 3, 40);
    step->UploadTo(backend);
    backend.GateUpSilu({.hidden = hidden.view(),
                        .norm = {.weight = norm_weight.get(), .epsilon = 1e-5f},
                        .gate_up = weight.get(),
                        .bias = nullptr,
                        .out = out.view()});
    return out;
  };
  ExpectNear(run(*backend_), run(*reference_), ToleranceOf(GetParam(), DType::kF32).products);
}

TEST_P(ProductsTest, LogitsAreThoseOfTheRowsAskedFor) {
  const int64_t hidden_size = 48, vocab = 203;
  for (const DType dtype : kDTypes) {
    SCOPED_TRACE(NameOf(dtype));
    const Tensor head = Tensor::Random(dtype, vocab, hidden_size, numbers_);
    const Tensor norm = Tensor::Random(dtype, 1, hidden_size, numbers_);
    Tensor hidden = Tensor::Random(DType::kF32, 20, hidden_size, numbers_);
    const auto run = [&](Backend& backend, int32_t begin, int32_t count) {
      const auto step = PlainStep(20);
      step->SetLogitsRows({0, 3, 4, 11, 19});
      const auto weight = Pack(backend, {&head}, WeightRole::kHead);
      const auto norm_weight = StoreVector(backend, norm);
      Tensor logits(DType::kF32, count, vocab);
      step->UploadTo(backend);
      backend.Logits({.hidden = hidden.view(),
                      .norm = {.weight = norm_weight.get(), .epsilon = 1e-6f},
                      .head = weight.get(),
                      .begin = begin,
                      .count = count,
                      .logits = logits.view()});
      EXPECT_TRUE(backend.Synchronize().ok());
      return logits;
    };
    const float tolerance = ToleranceOf(GetParam(), dtype).products;
    ExpectNear(run(*backend_, 0, 5), run(*reference_, 0, 5), tolerance);
    ExpectNear(run(*backend_, 2, 2), run(*reference_, 2, 2), tolerance);
    ExpectNear(run(*backend_, 5, 0), run(*reference_, 5, 0), tolerance);
  }
}

TEST_P(ProductsTest, EmbedGathersExactRows) {
  for (const DType dtype : kDTypes) {
    for (const int64_t width : {19, 24}) {
      if (!OffersWidth(*backend_, width)) continue;
      const Tensor table = Tensor::Random(dtype, 37, width, numbers_);
      const auto run = [&](Backend& backend) {
        const auto step = PlainStep(5);
        step->SetTokens({36, 0, 5, 5, 17});
        const auto weight = Pack(backend, {&table}, WeightRole::kEmbedding);
        Tensor hidden(DType::kF32, 5, width);
        step->UploadTo(backend);
        backend.Embed({.table = weight.get(), .hidden = hidden.view()});
        EXPECT_TRUE(backend.Synchronize().ok());
        return hidden;
      };
      const Tensor actual = run(*backend_);
      Tensor expected = run(*reference_);
      for (int64_t r = 0; r < 5; ++r) {
        if (GetParam().rounds_weights) {
          for (float& value : expected.Row(r)) value = WidenBF16(NarrowBF16(value));
        }
        ExpectSameBits(actual.Row(r), expected.Row(r));
      }
    }
  }
}

TEST_P(ProductsTest, PartsOfDifferentTypesAreMultipliedTogether) {
  const Tensor first = Tensor::Random(DType::kBF16, 5, 24, numbers_);
  const Tensor second = Tensor::Random(DType::kF32, 11, 24, numbers_);
  const Tensor x = Tensor::Random(DType::kF32, 4, 24, numbers_);
  const auto run = [&](Backend& backend) {
    const auto step = PlainStep(4);
    const auto weight = Pack(backend, {&first, &second}, WeightRole::kOutput);
    Tensor input = x, hidden(DType::kF32, 4, 16);
    step->UploadTo(backend);
    backend.ProjectAdd(
        {.x = input.view(), .weight = weight.get(), .bias = nullptr, .hidden = hidden.view()});
    return hidden;
  };
  ExpectNear(run(*backend_), run(*reference_), ToleranceOf(GetParam(), DType::kF32).products);
}

TEST_P(ProductsTest, TensorsMayStartAtAnyAddress) {
  for (const Shape& shape : {Shape{9, 33}, {16, 40}}) {
    if (!OffersWidth(*backend_, shape.outputs) || !OffersWidth(*backend_, shape.inputs)) continue;
    const Tensor weight = Tensor::Random(DType::kBF16, shape.outputs, shape.inputs, numbers_);
    const ConstTensorView view = weight.const_view();
    std::vector<std::byte> shifted(view.byte_size() + 1);
    std::memcpy(shifted.data() + 1, view.data, view.byte_size());
    ConstTensorView odd = view;
    odd.data = shifted.data() + 1;

    const Tensor x = Tensor::Random(DType::kF32, 2, shape.inputs, numbers_);
    const auto run = [&](const ConstTensorView& part) {
      const auto step = PlainStep(2);
      auto packed =
          backend_->PackWeight({&part, 1}, WeightRole::kOutput, WeightFormat::kAsStored, {});
      EXPECT_TRUE(packed.ok());
      Tensor input = x, hidden(DType::kF32, 2, shape.outputs);
      step->UploadTo(*backend_);
      backend_->ProjectAdd(
          {.x = input.view(), .weight = packed->get(), .bias = nullptr, .hidden = hidden.view()});
      return hidden;
    };
    const Tensor aligned = run(view), unaligned = run(odd);
    for (int64_t r = 0; r < 2; ++r) ExpectSameBits(unaligned.Row(r), aligned.Row(r));
  }
}

TEST_P(ProductsTest, ARowDoesNotDependOnTheRowsBesideIt) {
  if (!GetParam().keeps_rows_apart)
    GTEST_SKIP() << "on this backend, the bits of a row depend on other rows";
  const int32_t rows = 70;
  for (const DType dtype : kDTypes) {
    for (const auto [outputs, inputs] : {Shape{131, 1100}, {136, 1104}}) {
      SCOPED_TRACE(testing::Message() << NameOf(dtype) << " " << outputs << " x " << inputs);
      if (!OffersWidth(*backend_, outputs) || !OffersWidth(*backend_, inputs)) continue;
      const Tensor weight = Tensor::Random(dtype, outputs, inputs, numbers_);
      const Tensor x = Tensor::Random(DType::kF32, rows, inputs, numbers_);
      const Tensor together =
          Project(*backend_, x, weight, nullptr, Tensor(DType::kF32, rows, outputs));
      for (const int32_t count : {1, 2, 3, 4, 5, 6, 7, 11, 13, 17, 32, 64}) {
        const int32_t begin = numbers_.Below(rows - count + 1);
        Tensor part(DType::kF32, count, inputs);
        for (int32_t r = 0; r < count; ++r) {
          std::ranges::copy(x.Row(begin + r), part.Row(r).begin());
        }
        const Tensor alone =
            Project(*backend_, part, weight, nullptr, Tensor(DType::kF32, count, outputs));
        SCOPED_TRACE(testing::Message() << count << " rows from " << begin);
        for (int32_t r = 0; r < count; ++r) ExpectSameBits(alone.Row(r), together.Row(begin + r));
      }
    }
  }
}

TEST_P(ProductsTest, ALargeBatchIsCutWithoutATrace) {
  if (!GetParam().keeps_rows_apart)
    GTEST_SKIP() << "on this backend, the bits of a row depend on other rows";
  const int32_t rows = 1100;  // more rows than one pass computes
  const Tensor weight = Tensor::Random(DType::kBF16, 40, 64, numbers_);
  const Tensor x = Tensor::Random(DType::kF32, rows, 64, numbers_);
  const Tensor together = Project(*backend_, x, weight, nullptr, Tensor(DType::kF32, rows, 40));
  for (const int32_t row : {0, 511, 512, 1023, 1099}) {
    Tensor part(DType::kF32, 1, 64);
    std::ranges::copy(x.Row(row), part.Row(0).begin());
    const Tensor alone = Project(*backend_, part, weight, nullptr, Tensor(DType::kF32, 1, 40));
    ExpectSameBits(alone.Row(0), together.Row(row));
  }
}

TEST_P(ProductsTest, TheNumberOfThreadsDoesNotChangeABit) {
  if (!GetParam().has_threads) GTEST_SKIP() << "this backend uses no threads of the host";
  if (!GetParam().keeps_rows_apart)
    GTEST_SKIP() << "on this backend, the bits of a row depend on other rows";
  const Tensor weight = Tensor::Random(DType::kBF16, 500, 300, numbers_);
  const Tensor x = Tensor::Random(DType::kF32, 9, 300, numbers_);
  const Tensor two = Project(*backend_, x, weight, nullptr, Tensor(DType::kF32, 9, 500));
  for (const int32_t threads : {1, 3}) {
    const auto other = GetParam().create(threads);
    const Tensor result = Project(*other, x, weight, nullptr, Tensor(DType::kF32, 9, 500));
    for (int64_t r = 0; r < 9; ++r) ExpectSameBits(result.Row(r), two.Row(r));
  }
}

TEST_P(ProductsTest, WeightsThatDoNotBelongTogetherAreRefused) {
  const Tensor first = Tensor::Random(DType::kF32, 2, 3, numbers_);
  const Tensor second = Tensor::Random(DType::kF32, 2, 4, numbers_);
  const ConstTensorView parts[] = {first.const_view(), second.const_view()};
  EXPECT_EQ(
      backend_->PackWeight(parts, WeightRole::kQkv, WeightFormat::kAsStored, {}).status().code(),
      absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(backend_
                ->PackWeight({parts, 1}, WeightRole::kQkv, WeightFormat::kAsStored,
                             {.index = 0, .count = 2})
                .status()
                .code(),
            absl::StatusCode::kUnimplemented);
}

INSTANTIATE_TEST_SUITE_P(Backends, ProductsTest, testing::ValuesIn(Backends()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace incipit
